package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sum is a record that says how many records it is made of.
func sum(records []*Record) *kgo.Record {
	return &kgo.Record{Topic: "out", Key: []byte("sum"), Value: fmt.Appendf(nil, "%d", len(records))}
}

// What is polled is committed together with what was made of it, whatever goes wrong.
func TestTransact(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(w *world){
		"undisturbed": func(*world) {},
		"offsets are refused": func(w *world) {
			w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: 3})
		},
		"the end may be or not": func(w *world) {
			w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError, Count: 2})
		},
		"the end can be repeated": func(w *world) {
			w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.TransactionAbortable, Count: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			these(t, func(t *testing.T, opts func(w *world) []Option) {
				w := newPipeline(t, 40, 10)
				c := w.client(append(opts(w), Transactional("me"))...)
				records := w.poll(c.Client, 40)
				disturb(w)
				some := every(2, records)
				if err := c.Transact(t.Context(), some, sum(some)); err != nil {
					t.Fatal(err)
				}
				if err := c.Transact(t.Context(), records, sum(records)); !errors.Is(err, ErrNotAssigned) {
					t.Errorf("with records that are committed: %v", err)
				}
				if got := fmt.Sprint(w.written(1)); got != "map[sum:[20]]" {
					t.Errorf("written is %s", got)
				}
				c.close()
				d := w.client(append(opts(w), Transactional("me"))...)
				for _, r := range w.poll(d.Client, 20) {
					for _, o := range some {
						if o.Partition == r.Partition && o.Offset == r.Offset {
							t.Errorf("offset %d of partition %d comes again", r.Offset, r.Partition)
						}
					}
				}
				d.close()
			}, byGateway, inOneself)
		})
	}
}

// Who does not know how a transaction ended calls again with the same: it is not done twice.
func TestTransactAgain(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("before %v", before), func(t *testing.T) {
			w := newPipeline(t, 40, 10)
			cut := &cutter{key: kmsg.EndTxn, before: before}
			c := w.client(append(ways[byGateway].opts(w), Transactional("me"), KgoOpts(kgo.Dialer(cut.dial), kgo.RequestRetries(0)))...)
			records := w.poll(c.Client, 40)
			cut.left.Store(1000)
			stopped := w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorNotAvailable, Count: -1}) // and nobody finds out
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := c.Transact(ctx, records[:20], sum(records[:20])); err == nil {
				t.Fatal("an end that is not known")
			}
			stopped.Remove()
			cut.left.Store(0)
			if err := c.Transact(t.Context(), records[:20], sum(records[:20])); err != nil {
				t.Fatal(err)
			}
			if err := c.Transact(t.Context(), records[20:], sum(records[20:])); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(w.written(2)); got != "map[sum:[20 20]]" {
				t.Errorf("written is %s", got)
			}
			c.close()
		})
	}
}

func TestTransactRefuses(t *testing.T) {
	w := newPipeline(t, 10, 10)
	c := w.client()
	if err := c.Transact(t.Context(), w.poll(c.Client, 1), sum(nil)); !errors.Is(err, ErrNotTransactional) {
		t.Errorf("without Transactional: %v", err)
	}
	c.close()
	d := w.client(append(ways[direct].opts(w), Transactional("me"))...)
	if err := d.Transact(t.Context(), w.poll(d.Client, 1), sum(nil)); err == nil {
		t.Error("Transact without individual commits")
	}
	d.close()
}
