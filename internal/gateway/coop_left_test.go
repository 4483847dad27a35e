package gateway

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cooperating is a member of a group that fetches partition 0 of a topic, each time on a connection of its own.
type cooperating struct {
	w     *world
	topic string
	ask   tandemmsg.Cooperative
	on    int32 // broker
	has   []tandemmsg.AcquiredRange
	c     *kgo.Client
	leave func()
}

// cooperate has a member join. Nobody hears of its end for minutes.
func (w *world) cooperate(group, topic string) *cooperating {
	w.t.Helper()
	c, leave := w.joins(group, topic)
	id, generation := c.GroupMetadata()
	return &cooperating{w: w, topic: topic, on: w.coordinator(group), c: c, leave: leave,
		ask: tandemmsg.Cooperative{Group: group, Generation: generation, Member: id, SessionTimeout: 120_000, MaxRecords: 100}}
}

// send sends a fetch, which waits for up to so long; without partitions of partition 0.
func (m *cooperating) send(wait time.Duration, partitions ...int32) *raw {
	m.w.t.Helper()
	r := m.w.dial(m.on)
	r.send(m.request(wait, partitions...))
	return r
}

func (m *cooperating) request(wait time.Duration, partitions ...int32) *kmsg.FetchRequest {
	m.w.t.Helper()
	if len(partitions) == 0 {
		partitions = []int32{0}
	}
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(12)
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = int32(wait.Milliseconds()), 1, 1<<20, -1
	if err := tandemmsg.WriteCooperative(req, m.ask); err != nil {
		m.w.t.Fatal(err)
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic = m.topic
	for _, partition := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = partition, 1<<20
		if err := tandemmsg.SetAcquiredRanges(&p, m.has); err != nil {
			m.w.t.Fatal(err)
		}
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// fetched is the answer to a fetch.
func (r *raw) fetched() *kmsg.FetchResponse {
	r.t.Helper()
	resp, err := wire.DecodeResponse(int16(kmsg.Fetch), 12, r.content())
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.(*kmsg.FetchResponse)
}

// acquired is what a partition of the answer gives.
func (r *raw) acquired(p *kmsg.FetchResponseTopicPartition) []tandemmsg.AcquiredRange {
	r.t.Helper()
	of, err := tandemmsg.AcquiredRanges(p)
	if err != nil {
		r.t.Fatal(err)
	}
	return of
}

// given is what the answer to a fetch gives.
func (r *raw) given() (given string, err error) {
	r.t.Helper()
	f := r.fetched()
	if f.ErrorCode != 0 {
		return "", kerr.ErrorForCode(f.ErrorCode)
	}
	p := &f.Topics[0].Partitions[0]
	var text []string
	for _, a := range r.acquired(p) {
		text = append(text, fmt.Sprintf("%v#%d", a.OffsetRange, a.Attempt))
	}
	return strings.Join(text, " "), kerr.ErrorForCode(p.ErrorCode)
}

// fetch is what the member is given, once its group does not rebalance any more.
func (m *cooperating) fetch(wait time.Duration) (given string) {
	m.w.t.Helper()
	m.w.until("an answer", func() bool {
		var err error
		given, err = m.send(wait).given()
		if errors.Is(err, kerr.IllegalGeneration) {
			_, m.ask.Generation = m.c.GroupMetadata()
			return false
		}
		if err != nil && !kerr.IsRetriable(err) && !errors.Is(err, kerr.RebalanceInProgress) {
			m.w.t.Fatal(err)
		}
		return err == nil
	})
	return given
}

// wantNothing is for a fetch whose answer nobody waits for.
func (r *raw) wantNothing() {
	r.t.Helper()
	if given, err := r.given(); given != "" || err != nil {
		r.t.Errorf("given is %q: %v", given, err)
	}
}

// waiters are the fetches that wait.
func (m *cooperating) waiters() (of []*waiter) {
	p := m.w.gw.coop.known(factKey{m.ask.Group, m.topic, 0})
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiters {
		if records, _ := w.wants(); records > 0 {
			of = append(of, w.waiter)
		}
	}
	return of
}

// sendOne sends a fetch that waits for long, and returns when it does.
func (m *cooperating) sendOne() (*raw, *waiter) {
	m.w.t.Helper()
	r := m.send(15 * time.Second)
	m.w.until("it waits", func() bool { return len(m.waiters()) == 1 })
	return r, m.waiters()[0]
}

// What a fetch waits for, or has acquired already, goes to others at once, as if it had never been given out, when nobody waits for its answer any more: since its client closed the
// connection, since its member has left the group, or gives back what it has on another connection.
func TestNothingIsAcquiredForWhoDoesNotWait(t *testing.T) {
	const records = 10
	for name, leave := range map[string]func(m *cooperating) (waits *raw){
		"the connection is closed": func(m *cooperating) *raw {
			r, w := m.sendOne()
			_ = r.conn.Close()
			m.w.until("that is noticed", w.left)
			return nil
		},
		"the member has left": func(m *cooperating) *raw {
			r, _ := m.sendOne()
			m.leave()
			next := m.w.cooperate(m.ask.Group, m.topic)
			_ = next.fetch(0)
			return r
		},
		"the member gives back what it has": func(m *cooperating) *raw {
			r, _ := m.sendOne()
			m.ask.SessionTimeout = 0
			_ = m.fetch(0)
			return r
		},
		"the connection is closed while offsets are acquired": func(m *cooperating) *raw {
			m.w.produce(m.topic, records)
			held, release := m.w.holdFacts()
			r, w := m.sendOne()
			<-held
			_ = r.conn.Close()
			m.w.until("that is noticed", w.left)
			close(release)
			return nil
		},
		"the answer cannot be written": func(m *cooperating) *raw {
			m.w.produce(m.topic, records)
			held, release := m.w.holdFacts()
			r, _ := m.sendOne()
			r.send(kmsg.NewPtrApiVersionsRequest()) // behind it the end of the connection is not seen
			<-held
			if err := r.conn.(*net.TCPConn).SetLinger(0); err != nil {
				m.w.t.Fatal(err)
			}
			_ = r.conn.Close()
			close(release)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ranged(t, func(c *Config) { c.CooperativeFetch = true })
			topic, group := "orders", "g"
			w.topic(topic, 1)
			m := w.cooperate(group, topic)
			_ = m.fetch(0) // the group has begun
			waits := leave(m)
			if w.end(topic, 0) == 0 {
				w.produce(topic, records)
			}
			other := w.cooperate(group, topic)
			want := fmt.Sprintf("0-%d#1", records-1)
			if got := other.fetch(10 * time.Second); got != want {
				t.Errorf("another member is given %q, not %s", got, want)
			}
			if waits != nil {
				waits.wantNothing()
			}
		})
	}
}
