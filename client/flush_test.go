package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/keyrange"
)

// open are the first n offsets of partition 0 that group g has not committed, as a process sees them that is no member.
func (w *world) open(n int) string {
	w.t.Helper()
	c := w.client(Topics(), Assign(Ranges{"t": {0: nil}}))
	defer c.close()
	return fmt.Sprint(offsetsOf(w.poll(c.Client, n)))
}

// commitsOf counts the requests that committed, and the offset ranges of each.
func commitsOf(to chan int) Option {
	return Metrics(Hook{Committed: func(_ string, _ int32, _ keyrange.Set, ranges int, _ time.Duration, err error) {
		if err == nil {
			to <- ranges
		}
	}})
}

func every(n int, records []*Record) (list []*Record) {
	for i := 0; i < len(records); i += n {
		list = append(list, records[i])
	}
	return list
}

func TestPolledCommitsAreSentTogether(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 20, 20)
	sent := make(chan int, 100)
	c := w.client(CommitInterval(time.Hour), MaxRangesBeforeCommit(4), commitsOf(sent))
	for _, r := range every(2, w.poll(c.Client, 20)[1:])[:4] {
		if err := c.Commit(r); err != nil {
			t.Fatal(err)
		}
	}
	select { // at their number
	case n := <-sent:
		if n != 4 {
			t.Errorf("a request for %d offset ranges, not for 4", n)
		}
	case <-time.After(20 * time.Second):
		t.Error("4 offset ranges wait for more")
	}
	c.close()

	d := w.client(CommitInterval(300*time.Millisecond), MaxRangesBeforeCommit(1000), commitsOf(sent))
	records := w.poll(d.Client, 16)
	for _, r := range records[8:12] {
		if err := d.Commit(r); err != nil {
			t.Fatal(err)
		}
	}
	select { // or at their time, neighbours as one
	case n := <-sent:
		if n != 1 {
			t.Errorf("a request for %d offset ranges, not for 1", n)
		}
	case <-time.After(20 * time.Second):
		t.Error("an offset range waits for longer than its time")
	}
}

func TestFlushCommitsAtOnceAndTellsOfErrors(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 10, 10)
	ctx := t.Context()
	c := w.client(CommitInterval(time.Hour), MaxRangesBeforeCommit(2))
	records := w.poll(c.Client, 10)
	if err := c.Flush(ctx); err != nil {
		t.Errorf("with nothing to commit: %v", err)
	}
	if err := c.Commit(every(2, records[1:])...); err != nil { // more offset ranges than a request takes
		t.Fatal(err)
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got := w.open(5); got != "[0 2 4 6 8]" {
		t.Errorf("open are %s", got)
	}

	refuse := func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.GroupAuthorizationFailed.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	}
	w.Fake.ControlKey(int16(kmsg.OffsetCommit), refuse)
	if err := c.Commit(records[4]); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(ctx); !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Errorf("a refused commit: %v", err)
	}
	if err := c.Flush(ctx); err != nil { // it comes again
		t.Error(err)
	}
	if got := w.open(4); got != "[0 2 6 8]" {
		t.Errorf("open are %s", got)
	}
	// The first gap is closed: the stable offset moves over all of it.
	if err := c.Commit(records[0], records[2]); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	offsets, err := kadm.NewClient(w.Direct()).FetchOffsets(ctx, "g")
	if at, _ := offsets.Lookup("t", 0); err != nil || at.At != 6 {
		t.Errorf("the stable offset is %d, not 6: %v", at.At, err)
	}
	c.close()
	if err := c.Flush(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("Flush after Close: %v", err)
	}
}

func TestPolledCommitsAreSentBeforeKeysGo(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 100, 100)
	c := w.client(CommitInterval(time.Hour), ShareByKey())
	records := w.poll(c.Client, 100)
	if err := c.Commit(records[50:]...); err != nil {
		t.Fatal(err)
	}
	// Half of the keys go: what is said to be done until then goes along.
	go func() { _ = c.Commit(records[:50]...) }()
	d := w.client(ShareByKey())
	w.until("each has half", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if again, err := d.Poll(ctx, 1); err == nil {
			t.Errorf("offset %d comes again", again[0].Offset)
		}
		return c.Assigned()["t"][0].Len() == 1<<31 && d.Assigned()["t"][0].Len() == 1<<31
	})
	c.close() // and what is left
	d.close()
	w.produce("t", 1, 1)
	if got := w.open(1); got != "[100]" {
		t.Errorf("open are %s", got)
	}
}

func TestFlushOfWhatWasLost(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 10, 10)
	var lost Ranges
	gone := make(chan struct{})
	c := w.client(CommitInterval(time.Hour), ShareByKey(), OnLost(func(_ context.Context, r Ranges) { lost = r; close(gone) }))
	records := w.poll(c.Client, 10)
	if err := c.Commit(records[5]); err != nil {
		t.Fatal(err)
	}
	unknown := func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.Fake.KeepControl()
		resp := req.ResponseKind()
		switch resp := resp.(type) {
		case *kmsg.HeartbeatResponse:
			resp.ErrorCode = kerr.UnknownMemberID.Code
		case *kmsg.OffsetCommitResponse:
			for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
				rt := kmsg.NewOffsetCommitResponseTopic()
				rt.Topic, rt.TopicID = t.Topic, t.TopicID
				for _, p := range t.Partitions {
					rp := kmsg.NewOffsetCommitResponseTopicPartition()
					rp.Partition, rp.ErrorCode = p.Partition, kerr.UnknownMemberID.Code
					rt.Partitions = append(rt.Partitions, rp)
				}
				resp.Topics = append(resp.Topics, rt)
			}
		}
		return resp, nil, true
	}
	w.Fake.ControlKey(int16(kmsg.OffsetCommit), unknown)
	if err := c.Flush(t.Context()); commits.Classify(err) != commits.Fenced {
		t.Errorf("Flush by a member that was thrown out: %v", err)
	}
	w.Fake.ControlKey(int16(kmsg.Heartbeat), unknown)
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was lost")
	}
	if lost["t"][0].Len() != 1<<32 {
		t.Errorf("lost are %v", lost)
	}
	if err := c.Commit(records[6]); !errors.Is(err, ErrNotAssigned) {
		t.Errorf("a commit of what was lost: %v", err)
	}
}
