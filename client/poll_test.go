package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/keyrange"
)

// poll polls n records.
func (w *world) poll(c *Client, n int) (list []*Record) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for len(list) < n {
		records, err := c.Poll(ctx, n-len(list))
		if err != nil {
			w.t.Fatalf("after %d of %d records: %v", len(list), n, err)
		}
		list = append(list, records...)
	}
	return list
}

func (w *world) client(opts ...Option) *member {
	w.t.Helper()
	c, err := New(w.options(opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	m := &member{Client: c, t: w.t}
	w.t.Cleanup(m.close)
	return m
}

func offsetsOf(records []*Record) (list []int64) {
	for _, r := range records {
		list = append(list, r.Offset)
	}
	return list
}

func TestPollLeavesOutWhatIsCommitted(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 20, 20)
	c := w.client()
	records := w.poll(c.Client, 20)
	if err := c.Commit(append(records[3:7], records[9])...); err != nil {
		t.Fatal(err)
	}
	if err := c.CommitRanges("t", 0, OffsetRange{12, 13}, OffsetRange{18, 100}); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(records[3]); !errors.Is(err, ErrNotAssigned) {
		t.Errorf("a second commit: %v", err)
	}
	c.close()
	if _, err := c.Poll(context.Background(), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Poll after Close: %v", err)
	}

	d := w.client()
	records = w.poll(d.Client, 11)
	if got, want := fmt.Sprint(offsetsOf(records)), "[0 1 2 7 8 10 11 14 15 16 17]"; got != want {
		t.Errorf("polled %s, not %s", got, want)
	}
	if err := d.Commit(records...); err != nil {
		t.Fatal(err)
	}
	d.close()
	w.produce("t", 1, 1)
	e := w.client()
	if got := w.poll(e.Client, 1)[0].Offset; got != 20 {
		t.Errorf("polled %d, not 20", got)
	}
}

func TestPolledRecordsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	large := make([]*kgo.Record, 500)
	for i := range large {
		large[i] = &kgo.Record{Topic: "t", Value: make([]byte, 20<<10)}
	}
	w.ProduceRecords(large, kgo.ProducerBatchCompression(kgo.NoCompression()))
	c := w.client(MaxBuffered(100, 64<<20))
	records := w.poll(c.Client, 60)
	for { // what is in memory already
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		more, err := c.Poll(ctx, 100)
		cancel()
		if err != nil {
			break
		}
		records = append(records, more...)
	}
	if len(records) == 500 {
		t.Error("all records were polled, though none is committed")
	}
	for n := len(records); ; {
		if err := c.Commit(records...); err != nil {
			t.Fatal(err)
		}
		if n == 500 {
			break
		}
		records = w.poll(c.Client, 1)
		n += len(records)
	}
}

func TestACommitOfWhatWasLostChangesNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 100, 50)
	c := w.client(ShareByKey(), DrainTimeout(50*time.Millisecond))
	records := w.poll(c.Client, 100)
	d := w.client(ShareByKey())
	others := w.poll(d.Client, 1)
	half := d.Assigned()["t"][0]
	w.until("the first has half", func() bool { return c.Assigned()["t"][0].Len() == 1<<31 })
	var lost []*Record
	for _, r := range records {
		if half.Contains(keyrange.Position(r.Key, 1)) {
			lost = append(lost, r)
		}
	}
	if err := c.Commit(lost...); !errors.Is(err, ErrNotAssigned) || len(lost) == 0 {
		t.Errorf("a commit of %d lost records: %v", len(lost), err)
	}
	if n := len(others) + len(w.poll(d.Client, len(lost)-len(others))); n != len(lost) {
		t.Errorf("the other got %d records, not %d", n, len(lost))
	}
}
