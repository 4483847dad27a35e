package main

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// memoryTable shows what the gateway's resident memory grows by.
func memoryTable(b *bench) (*result, error) {
	r := &result{Head: []string{"what", "how many", "resident before", "after", "each"}}
	for _, m := range []struct {
		what string
		n    int
		grow func(g *process, source string, n int) (done func(), err error)
	}{
		{"idle connection", b.scaled(1000, 100), b.idleConnections},
		{"virtual partition being read", powerOfTwo(b.scaled(2048, 256)), b.readPartitions},
		{"idle group with commits on a view of 16", b.scaled(2000, 100), b.idleGroups},
	} {
		source := b.name("memory") // of its own: progress is kept for all views of a source together
		if err := b.topic(source, 1); err != nil {
			return nil, err
		}
		if err := b.fill(b.kafka.addr, source, data{records: 1000, bytes: 100, keys: 1000}); err != nil {
			return nil, err
		}
		g, err := b.gateway()
		if err != nil {
			return nil, err
		}
		defer g.stop()
		before := g.resident()
		done, err := m.grow(g, source, m.n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.what, err)
		}
		time.Sleep(time.Second)
		after := g.resident()
		done()
		g.stop()
		b.dropTopics(source)
		mb := func(v float64) string { return fmt.Sprintf("%.1f MB", v/1e6) }
		b.progress("%s: %d, %s to %s", m.what, m.n, mb(before), mb(after))
		r.row(m.what, fmt.Sprint(m.n), mb(before), mb(after), fmt.Sprintf("%.1f KB", (after-before)/float64(m.n)/1e3))
	}
	r.note("Resident memory of a new gateway before and after, garbage included. An idle connection has sent requests and has its connection to the broker; " +
		"an idle group has committed all 16 virtual partitions once.")
	return r, nil
}

// idleConnections opens n connections that have all been used.
func (b *bench) idleConnections(g *process, _ string, n int) (func(), error) {
	var conns []*plainConn
	done := func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for range n {
		c, err := dial(g.addr)
		if err != nil {
			return done, err
		}
		conns = append(conns, c)
		av := kmsg.NewPtrApiVersionsRequest()
		av.Version, av.ClientSoftwareName, av.ClientSoftwareVersion = 3, "bench", "1"
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Version, beat.Group, beat.MemberID = 4, "nobody", "nobody"
		for _, req := range []kmsg.Request{av, beat} {
			if _, err := c.roundTrip(req); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// readPartitions consumes a view of n virtual partitions.
func (b *bench) readPartitions(g *process, source string, n int) (func(), error) {
	view, err := b.view(g.addr, source, n)
	if err != nil {
		return func() {}, err
	}
	cl, err := client(g.addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{view: dealt(n, 0, 1)}))
	if err != nil {
		return func() {}, err
	}
	done := func() { cl.Close(); b.dropTopics(view) }
	for seen := 0; seen < 1000 && b.ctx.Err() == nil; {
		seen += cl.PollFetches(b.ctx).NumRecords()
	}
	return done, nil
}

// idleGroups commits once for each of n groups, as a tool does that is no member.
func (b *bench) idleGroups(g *process, source string, n int) (func(), error) {
	view, err := b.view(g.addr, source, 16)
	if err != nil {
		return func() {}, err
	}
	c, err := dial(g.addr)
	if err != nil {
		return func() {}, err
	}
	done := func() { c.Close(); b.dropTopics(view) }
	if err := b.awaitCoordinator(g.addr, "idle-0"); err != nil {
		return done, err
	}
	for i := range n {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, fmt.Sprintf("idle-%d", i), -1
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = view
		for v := range int32(16) {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch = v, 10, -1
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
		for try := 0; ; try++ {
			content, err := c.roundTrip(req)
			if err != nil {
				return done, err
			}
			resp, err := wire.DecodeResponse(req.Key(), req.Version, content)
			if err != nil {
				return done, err
			}
			code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
			if code == 0 {
				break
			}
			if err := kerr.ErrorForCode(code); !kerr.IsRetriable(err) || try > 100 {
				return done, fmt.Errorf("commit of group %s: %w", req.Group, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return done, nil
}

// awaitCoordinator waits until a group has one: the broker makes its topic of offsets when somebody asks.
func (b *bench) awaitCoordinator(addr, group string) error {
	cl, err := client(addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := kadm.NewClient(cl).FindGroupCoordinators(b.ctx, group).Error()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// powerOfTwo is the highest power of two that is not above n.
func powerOfTwo(n int) int { return 1 << (bits.Len(uint(n)) - 1) }
