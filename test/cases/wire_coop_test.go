package cases

import (
	"fmt"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// coopMember is a member of a group that fetches a partition cooperatively on the wire.
type coopMember struct {
	*wire
	topic   string
	timeout int32 // session timeout in ms
	// committed says that it reads what is committed only.
	committed bool
	hand      []tandemmsg.AcquiredRange
}

// cooperate makes members of a group, in one generation.
func (e engine) cooperate(w []*wire, topic string, timeout int32) []*coopMember {
	for _, w := range w {
		w.session = max(w.session, timeout)
	}
	joinAll(topic, w...)
	members := make([]*coopMember, len(w))
	for i := range w {
		members[i] = &coopMember{wire: w[i], topic: topic, timeout: timeout}
	}
	return members
}

// coordinatorID is the broker that the group's requests go to.
func (w *wire) coordinatorID() (id int) {
	w.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = w.group, []string{w.group}
	harness.Eventually(w.t, 20*time.Second, func() error {
		resp, err := req.RequestWith(harness.Context(w.t, 20*time.Second), w.c)
		if err == nil && len(resp.Coordinators) == 1 {
			id, err = int(resp.Coordinators[0].NodeID), kerr.ErrorForCode(resp.Coordinators[0].ErrorCode)
		}
		return err
	})
	return id
}

// given is what one fetch gave.
type given struct {
	ranges  []tandemmsg.AcquiredRange
	records []*kgo.Record // those in the ranges
	bytes   int           // of the batches
}

func (g given) offsets() (all []int64) {
	for _, r := range g.records {
		all = append(all, r.Offset)
	}
	return all
}

// ask fetches cooperatively, for up to so many records.
func (m *coopMember) ask(records int32, wait time.Duration) (g given, err error) {
	return m.askWith(tandemmsg.Cooperative{Group: m.group, Generation: m.generation, Member: m.member, SessionTimeout: m.timeout, MaxRecords: records}, wait)
}

func (m *coopMember) askWith(ask tandemmsg.Cooperative, wait time.Duration) (g given, err error) {
	m.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = int32(wait.Milliseconds()), 1, 50<<20, -1
	if m.committed {
		req.IsolationLevel = 1
	}
	if err := tandemmsg.WriteCooperative(req, ask); err != nil {
		m.t.Fatal(err)
	}
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, p.PartitionMaxBytes = m.topic, 50<<20
	if err := tandemmsg.SetAcquiredRanges(&p, m.hand); err != nil {
		m.t.Fatal(err)
	}
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	kresp, err := m.c.Broker(m.coordinatorID()).RetriableRequest(harness.Context(m.t, wait+20*time.Second), req)
	if err != nil {
		return g, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return g, err
	}
	rp := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
		return g, err
	}
	if g.ranges, err = tandemmsg.AcquiredRanges(rp); err != nil {
		m.t.Fatal(err)
	}
	g.bytes = len(rp.RecordBatches)
	fetched, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: m.topic}, rp, kgo.DefaultDecompressor(), nil)
	if fetched.Err != nil {
		m.t.Fatal(fetched.Err)
	}
	for _, r := range fetched.Records {
		if slices.ContainsFunc(g.ranges, func(a tandemmsg.AcquiredRange) bool { return a.First <= r.Offset && r.Offset <= a.Last }) {
			g.records = append(g.records, r)
		}
	}
	m.hand = append(m.hand, g.ranges...)
	slices.SortFunc(m.hand, func(a, b tandemmsg.AcquiredRange) int { return int(a.First - b.First) })
	return g, nil
}

// mustAsk fetches until something is given.
func (m *coopMember) mustAsk(records int32) given {
	m.t.Helper()
	within := harness.Until(30 * time.Second)
	var last error
	for within() {
		g, err := m.ask(records, time.Second)
		if err == nil && len(g.ranges) > 0 {
			return g
		}
		last = err
	}
	m.t.Fatalf("%s is given nothing: %v", m.member, last)
	return given{}
}

// finish commits offsets of what the member has.
func (m *coopMember) finish(ranges ...tandemmsg.AcquiredRange) error {
	var done []tandemmsg.OffsetRange
	for _, r := range ranges {
		done = append(done, r.OffsetRange)
	}
	err := m.commit(m.topic, 0, rangesOf(nil, done...))
	if err == nil {
		m.hand = slices.DeleteFunc(m.hand, func(h tandemmsg.AcquiredRange) bool { return slices.Contains(ranges, h) })
	}
	return err
}

func shown(ranges []tandemmsg.AcquiredRange) (s string) {
	for _, r := range ranges {
		s += fmt.Sprintf("%v#%d ", r.OffsetRange, r.Attempt)
	}
	return s
}
