package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/attempts"
	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// This file fetches cooperatively, for ShareByRecord: the gateway says which offsets are this member's. Each acquired range is a partition of its own to the
// runner, with one holding that begins and ends with it.

// coop is what a member has acquired.
type coop struct {
	s      *session
	handed atomic.Int64  // handlers that ended
	ended  chan struct{} // one has; cap 1
	cancel context.CancelFunc
	done   chan struct{} // the loop has ended

	mu     sync.Mutex
	ranges map[executor.TP]*acquired
	seq    int64
	turns  turns
	told   map[string]int32 // topics, and how many of their partitions OnAssigned was told of

	guarding atomic.Bool

	// Of the loop's goroutine.
	topics      []coopTopic
	looked      time.Time
	dropped     bool                      // it has let go of what others have, and has not said so
	as          string                    // the member id under which it was last heard of
	coordinator int                       // -1: not known
	contact     atomic.Pointer[time.Time] // when a server last heard of this member; nil: not yet. Handlers read it, too
	rate        float64                   // records done per second
	rated       time.Time
	counted     int64
	ahead       time.Duration // for how long records are to be in memory
	took        time.Duration // the last fetch that did not wait for records
}

// acquired is an acquired range.
type acquired struct {
	tp          executor.TP // the partition
	id          string      // of its topic
	first, last int64
	attempt     int32
}

type coopTopic struct {
	name   string
	id     [16]byte
	starts []int64 // of each partition: where the group begins if it has committed nothing
}

const (
	coopWait  = 500 * time.Millisecond // length of a long poll
	coopPause = 100 * time.Millisecond
	// A member has records in memory for so long at the pace at which it works: twice the time that a fetch takes, at least and at most; and where records take
	// next to no time, as long as fetches bring all that they ask for, since there is a backlog, for ever longer: else it would fetch all the time, and each fetch is a turn of the log.
	leastAhead, mostAhead, backlogAhead = 10 * time.Millisecond, 500 * time.Millisecond, 100 * time.Millisecond
	fastRate                            = 1000 // records a second of each handler
	// The pace is that of so many records, or of so long.
	paceTime, paceRecords, pacePatience = 20 * time.Millisecond, 16, 200 * time.Millisecond
)

// startCooperation begins to fetch.
func (s *session) startCooperation() {
	ctx, cancel := context.WithCancel(s.ctx)
	s.coop.cancel = cancel
	s.work.Go(func() {
		defer close(s.coop.done)
		s.coop.run(ctx)
	})
}

func newCoop(s *session) *coop {
	return &coop{s: s, ended: make(chan struct{}, 1), done: make(chan struct{}), ranges: map[executor.TP]*acquired{}, told: map[string]int32{}, coordinator: -1, ahead: leastAhead, cancel: func() {}}
}

// of is the partition and range that a partition of the runner stands for; nil: none.
func (c *coop) of(tp executor.TP) *acquired {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ranges[tp]
}

// handled is told that a handler has ended.
func (c *coop) handled(own executor.TP, offset int64, failed bool) {
	if failed {
		c.settle(own, func(o int64) bool { return o == offset })
	}
	c.handed.Add(1)
	select {
	case c.ended <- struct{}{}:
	default:
	}
}

// run fetches until ctx ends.
func (c *coop) run(ctx context.Context) {
	c.heard(time.Now())
	for ctx.Err() == nil {
		free := c.appetite()
		quarter := c.s.cfg.session / 4
		if free <= 0 && c.silent() < quarter {
			timer := time.NewTimer(max(time.Millisecond, quarter-c.silent()))
			select {
			case <-c.ended:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			continue
		}
		if err := c.fetch(ctx, int32(max(free, 0))); err != nil && ctx.Err() == nil {
			c.failed(err)
			pause(ctx, coopPause)
		}
	}
}

// appetite is how many records the member can take: for its free handlers, and for a moment ahead at its pace.
func (c *coop) appetite() int {
	c.pace(time.Now(), c.handed.Load())
	target := min(c.s.cfg.concurrency+int(c.rate*c.ahead.Seconds()), c.s.cfg.maxRecords)
	c.mu.Lock()
	waiting := c.turns.records
	c.mu.Unlock()
	records := c.s.runner.Stats().Records + waiting
	free := target - records
	if records >= c.s.cfg.concurrency && free < target/2 { // all handlers have work: not for a few
		return 0
	}
	return free
}

// pace works out how many records a second are done: who becomes faster is to have more at once, who becomes slower may only have had a pause.
func (c *coop) pace(now time.Time, handed int64) {
	d, n := now.Sub(c.rated), handed-c.counted
	if d < paceTime || n < paceRecords && d < pacePatience {
		return
	}
	rate := float64(n) / d.Seconds()
	if rate < c.rate {
		rate = (c.rate + rate) / 2
	}
	c.rate, c.rated, c.counted = rate, now, handed
}

// reach works out for how long records are to be in memory, after a fetch.
func (c *coop) reach(given, asked int64, took time.Duration) {
	backlog := given >= asked*3/4
	if backlog { // it did not wait for records
		c.took = (c.took + took) / 2
	}
	least := min(max(leastAhead, 2*c.took), mostAhead)
	if backlog && c.rate >= fastRate*float64(c.s.cfg.concurrency) { // what is slow would lie here while others have nothing to do, or be left behind by a crash
		c.ahead = max(least, min(2*c.ahead, backlogAhead))
	} else {
		c.ahead = max(least, c.ahead/2)
	}
}

// failed is told of an error of a fetch.
func (c *coop) failed(err error) {
	switch {
	case errors.Is(err, kerr.NotCoordinator), errors.Is(err, kerr.CoordinatorNotAvailable), !isKafka(err):
		c.coordinator = -1
	case errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.UnknownMemberID): // it joins again
	case errors.Is(err, kerr.PolicyViolation):
		c.s.fail(fmt.Errorf("client: ShareByRecord: the gateway does not allow it (cooperative.fetch.enable): %w", err))
		return
	case errors.Is(err, kerr.InvalidRequest): // asking again would not help
		c.s.fail(fmt.Errorf("client: ShareByRecord: not for views, whose source can be shared so instead; the gateway's log says what else it may be: %w", err))
		return
	case refused(err):
		c.s.fail(fmt.Errorf("client: cooperative fetch: %w", err))
		return
	}
	c.looked = time.Time{}
	c.s.log.Debug("a cooperative fetch failed; trying again", "error", err)
}

// heard says that a server heard of this member.
func (c *coop) heard(at time.Time) { c.contact.Store(&at) }

// silent is for how long no server has heard of this member.
func (c *coop) silent() time.Duration {
	if at := c.contact.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}

// late reports whether others have by now what this member had: it was not heard of for its session timeout. Handlers ask, too.
func (c *coop) late() bool {
	return c.silent() > c.s.cfg.session
}

// fetch fetches once, for up to so many records.
func (c *coop) fetch(ctx context.Context, records int32) error {
	c.dropLate(ctx) // this process was halted
	m := c.s.member()
	if m.ID == "" || m.Generation < 0 {
		return kerr.UnknownMemberID
	}
	if c.as != "" && c.as != m.ID { // it joined again as another one
		c.drop(ctx, "the group has dropped this member: others have what it had")
	}
	if err := c.look(ctx); err != nil {
		return err
	}
	if c.dropped { // what is only not named any more would count as never given
		if err := c.sendBack(ctx, m); err != nil {
			return err
		}
		c.dropped = false
	}
	req := c.request(tandemmsg.Cooperative{Group: c.s.cfg.group, Generation: m.Generation, Member: m.ID, SessionTimeout: int32(c.s.cfg.session.Milliseconds()), MaxRecords: records})
	began := time.Now()
	resp, err := c.send(ctx, req)
	if err != nil {
		return err
	}
	if c.dropLate(ctx) { // meanwhile: handlers wait to be rid of what they have not begun with, and the server cannot know of that
		return nil
	}
	c.heard(began)
	c.as = m.ID
	c.tell(ctx)
	given := int64(0)
	for ti := range resp.Topics {
		for pi := range resp.Topics[ti].Partitions {
			p := &resp.Topics[ti].Partitions[pi]
			if ti >= len(c.topics) {
				continue
			}
			name := c.topics[ti].name
			if code := kerr.ErrorForCode(p.ErrorCode); code != nil && err == nil {
				err = fmt.Errorf("topic %s: %w", name, code)
			}
			given += c.take(ctx, tpOf(name, p.Partition), kadm.TopicID(c.topics[ti].id).String(), p)
		}
	}
	if records > 0 {
		c.reach(given, int64(records), time.Since(began))
	}
	return err
}

// look finds the coordinator and the topics.
func (c *coop) look(ctx context.Context) error {
	if c.coordinator < 0 {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = c.s.cfg.group, []string{c.s.cfg.group}
		resp, err := req.RequestWith(ctx, c.s.data[0])
		if err != nil {
			return err
		}
		id, code := resp.NodeID, resp.ErrorCode
		if len(resp.Coordinators) == 1 {
			id, code = resp.Coordinators[0].NodeID, resp.Coordinators[0].ErrorCode
		}
		if err := kerr.ErrorForCode(code); err != nil {
			return err
		}
		c.coordinator = int(id)
	}
	if time.Since(c.looked) < 10*time.Second {
		return nil
	}
	admin := kadm.NewClient(c.s.data[0])
	details, err := admin.ListTopicsWithInternal(ctx, c.s.cfg.topics...)
	if err != nil {
		return err
	}
	var topics []coopTopic
	for _, name := range c.s.cfg.topics {
		d := details[name]
		if d.Err != nil || len(d.Partitions) == 0 {
			c.s.log.Warn("a topic is not there", "topic", name, "error", d.Err)
			continue
		}
		t := coopTopic{name: name, id: d.ID, starts: make([]int64, len(d.Partitions))}
		if i := slices.IndexFunc(c.topics, func(t coopTopic) bool { return t.name == name && t.id == d.ID && len(t.starts) == len(d.Partitions) }); i >= 0 {
			t = c.topics[i]
		} else if c.s.cfg.reset == Latest {
			ends, err := admin.ListEndOffsets(ctx, name)
			if err != nil {
				return err
			}
			for p := range t.starts {
				o, ok := ends.Lookup(name, int32(p))
				if !ok || o.Err != nil {
					return fmt.Errorf("the end of topic %s, partition %d: %w", name, p, o.Err)
				}
				t.starts[p] = o.Offset
			}
		}
		topics = append(topics, t)
	}
	c.topics, c.looked = topics, time.Now()
	return nil
}

func (c *coop) request(ask tandemmsg.Cooperative) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = int32(coopWait.Milliseconds()), 1, int32(min(c.s.cfg.maxBytes, 16<<20)), -1
	req.IsolationLevel = int8(c.s.cfg.isolation)
	_ = tandemmsg.WriteCooperative(req, ask) // config's validate saw to it
	has := map[executor.TP][]tandemmsg.AcquiredRange{}
	c.mu.Lock()
	for _, a := range c.ranges {
		has[a.tp] = append(has[a.tp], tandemmsg.AcquiredRange{OffsetRange: tandemmsg.OffsetRange{First: a.first, Last: a.last}, Attempt: a.attempt})
	}
	c.mu.Unlock()
	for _, t := range c.topics {
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.TopicID = t.name, t.id
		for p, start := range t.starts {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = int32(p), start, req.MaxBytes
			of := has[tpOf(t.name, int32(p))]
			slices.SortFunc(of, func(a, b tandemmsg.AcquiredRange) int { return int(min(max(a.First-b.First, -1), 1)) })
			_ = tandemmsg.SetAcquiredRanges(&rp, of)
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	return req
}

func (c *coop) send(ctx context.Context, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, c.s.cfg.session)
	defer cancel()
	kresp, err := c.s.data[0].Broker(c.coordinator).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	return resp, kerr.ErrorForCode(resp.ErrorCode)
}

// take takes in what a partition's answer gives, and returns how many offsets that are.
func (c *coop) take(ctx context.Context, tp executor.TP, id string, p *kmsg.FetchResponseTopicPartition) (given int64) {
	ranges, err := tandemmsg.AcquiredRanges(p)
	if err != nil || len(ranges) == 0 {
		if err != nil {
			c.s.log.Error("an answer cannot be read", "topic", tp.Topic, "partition", tp.Partition, "error", err)
		}
		return 0
	}
	fetched, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Topic: tp.Topic, Partition: tp.Partition, IsolationLevel: c.level(), Offset: ranges[0].First,
	}, p, kgo.DefaultDecompressor(), nil)
	if fetched.Err != nil { // what the member does not say it has, it is given again
		c.s.log.Error("records cannot be read", "topic", tp.Topic, "partition", tp.Partition, "error", fetched.Err)
		return 0
	}
	if c.s.attempts != nil && slices.ContainsFunc(ranges, func(r tandemmsg.AcquiredRange) bool { return r.Attempt > 1 }) {
		if err := c.s.attempts.CatchUp(ctx); err != nil {
			c.s.log.Warn("the attempts of records that are not done cannot be read; they count from what is known", "error", err)
		}
	}
	records := fetched.Records
	for _, r := range ranges {
		from, _ := slices.BinarySearchFunc(records, r.First, func(r *kgo.Record, at int64) int { return int(min(max(r.Offset-at, -1), 1)) })
		to, _ := slices.BinarySearchFunc(records, r.Last+1, func(r *kgo.Record, at int64) int { return int(min(max(r.Offset-at, -1), 1)) })
		c.begin(tp, id, r, records[from:to])
		given += r.Last - r.First + 1
	}
	if f := c.s.cfg.hook.Fetched; f != nil {
		f(tp.Topic, tp.Partition, len(records), len(p.RecordBatches), max(0, p.HighWatermark-ranges[len(ranges)-1].Last-1))
	}
	return given
}

func (c *coop) level() kgo.IsolationLevel {
	if c.s.cfg.isolation == ReadCommitted {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}

// begin has the runner work on an acquired range.
func (c *coop) begin(tp executor.TP, id string, r tandemmsg.AcquiredRange, records []*kgo.Record) {
	c.mu.Lock()
	c.seq++
	own := executor.TP{Topic: tp.Topic + "\x00" + strconv.FormatInt(c.seq, 10), Partition: tp.Partition}
	c.ranges[own] = &acquired{tp: tp, id: id, first: r.First, last: r.Last, attempt: r.Attempt}
	c.mu.Unlock()
	c.assign(own, r, records)
}

// retries are the attempts of records that were given out before: as often as they were, or more often where a member that had them has kept that. That
// they were given out does not use up their last attempt: they may have done nothing but wait beside one that ended the process.
func (c *coop) retries(tp executor.TP, id string, r tandemmsg.AcquiredRange, records []*kgo.Record) (list []executor.Retry) {
	var kept map[int64]attempts.State
	if c.s.attempts != nil {
		kept = c.s.attempts.Of(tp.Topic, tp.Partition)
	}
	for _, rec := range records {
		before := executor.Retry{Offset: rec.Offset, Attempts: r.Attempt - 1}
		if limit := int32(c.s.cfg.attempts); limit > 0 {
			before.Attempts = min(before.Attempts, limit-1)
		}
		if k, ok := kept[rec.Offset]; ok && k.TopicID == id { // else of a topic that was there before under this name
			before.Attempts, before.NextAt, before.Final, before.Cause = max(before.Attempts, k.Attempts), k.NextAt, k.Final, k.Cause
		}
		list = append(list, before)
	}
	return list
}

func (c *coop) forget(own executor.TP) {
	c.mu.Lock()
	delete(c.ranges, own)
	c.mu.Unlock()
	c.pass(own)
}

// dropLate lets go of everything if this member is late. It reports whether it was.
func (c *coop) dropLate(ctx context.Context) bool {
	if !c.late() {
		return false
	}
	c.drop(ctx, "this member was not heard of for its session timeout: others have what it had", "session_timeout", c.s.cfg.session, "silent", c.silent())
	c.heard(time.Now()) // it has nothing that it could be late with
	return true
}

// drop lets go of everything, since others have it. why and attrs are for the log.
func (c *coop) drop(ctx context.Context, why string, attrs ...any) {
	c.mu.Lock()
	var all []executor.TP
	for own := range c.ranges {
		all = append(all, own)
	}
	c.dropped = c.dropped || len(all) > 0
	clear(c.ranges)
	c.turns = turns{}
	c.guarding.Store(false)
	c.mu.Unlock()
	if len(all) > 0 {
		c.s.log.Warn(why, attrs...)
	}
	for _, own := range all {
		c.s.runner.Lost(own, nil)
	}
	c.untell(ctx, c.s.cfg.onLost)
}

// stop ends the loop, and gives back what is not done once the runner has ended.
func (c *coop) stop() {
	c.cancel()
	<-c.done
}

func (c *coop) giveBack(ctx context.Context) {
	defer c.untell(ctx, c.s.cfg.onRevoked)
	m := c.s.member()
	if m.ID == "" || m.Generation < 0 || c.coordinator < 0 {
		return
	}
	c.mu.Lock()
	clear(c.ranges)
	c.turns = turns{}
	c.guarding.Store(false)
	c.mu.Unlock()
	if err := c.sendBack(ctx, m); err != nil {
		c.s.log.Debug("what is not done was not given back; others get it a little later", "error", err)
	}
}

// sendBack gives back what the server says that the member has.
func (c *coop) sendBack(ctx context.Context, m commits.Member) error {
	req := c.request(tandemmsg.Cooperative{Group: c.s.cfg.group, Generation: m.Generation, Member: m.ID})
	req.MaxWaitMillis = 0
	resp, err := c.send(ctx, req)
	if err != nil {
		return err
	}
	for ti := range resp.Topics {
		for pi := range resp.Topics[ti].Partitions {
			if err := kerr.ErrorForCode(resp.Topics[ti].Partitions[pi].ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
