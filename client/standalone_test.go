package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/keyrange"
)

func TestStandaloneClientsReadTheKeyRangesTheyAreGiven(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 2)
	w.produce("t", 1000, 50)
	for _, group := range []string{"", "g"} {
		half := func(i int32) Option {
			keys := keyrange.Set{keyrange.OfSlice(i, 2)}
			return Assign(Ranges{"t": {0: keys, 1: keys}})
		}
		before := w.count()
		a := w.run(w.judge("a", nil), Topics(), Group(group), half(0))
		b := w.run(w.judge("b", nil), Topics(), Group(group), half(1))
		w.until("1000 records", func() bool { return w.count() >= before+1000 })
		a.close()
		b.close()
	}
	// With a group what is done is kept; without one it is not.
	c := w.run(w.judge("c", nil), Topics(), Assign(Ranges{"t": {0: nil, 1: nil}}))
	w.until("it is assigned", func() bool { return len(c.Assigned()["t"]) == 2 })
	w.produce("t", 50, 50)
	w.until("2050 records", func() bool { return w.count() >= 2050 })
	c.close()
	if w.count() != 2050 {
		t.Errorf("%d records", w.count())
	}
}

func TestInTheProcessAgainstAPlainCluster(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	var clients []*member
	for _, name := range []string{"a", "b", "c"} {
		clients = append(clients, w.run(w.judge(name, nil), Bootstrap(w.Fake.ListenAddrs()...), InProcess(CacheBytes(32<<20)), ShareByKey()))
	}
	w.until("all have a part", func() bool {
		for _, c := range clients {
			if n := c.Assigned()["t"][0].Len(); n == 0 || n > 1<<31 {
				return false
			}
		}
		return true
	})
	w.produce("t", 2000, 100)
	w.until("2000 records", func() bool { return w.count() >= 2000 })
	for _, c := range clients {
		c.close()
	}
	w.wantOnce("t", 2000, 100)
}

func TestPlainBrokers(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 3)
	w.produce("t", 1000, 50)
	brokers := Bootstrap(w.Fake.ListenAddrs()...)

	c := w.run(w.judge("a", nil), brokers, ShareByKey())
	if err := c.result(); !errors.Is(err, ErrNoGateway) {
		t.Errorf("sharing without a gateway: %v", err)
	}
	a, b := w.run(w.judge("a", nil), brokers), w.run(w.judge("b", nil), brokers)
	w.until("1000 records", func() bool { return w.count() >= 1000 })
	a.close()
	b.close()
	w.wantOnce("t", 1000, 50)
	d := w.run(w.judge("d", nil), brokers)
	w.until("it is assigned", func() bool { return len(d.Assigned()["t"]) == 3 })
	w.produce("t", 50, 50)
	w.until("50 more", func() bool { return w.count() >= 1050 })
	d.close()
	if w.count() != 1050 {
		t.Errorf("%d records", w.count())
	}
}

// One ordinary offset has to say all that is done: what lies below it is done before a partition is given up, so that nothing comes again.
func TestPlainBrokersHandOver(t *testing.T) {
	for _, closes := range []bool{true, false} {
		t.Run(fmt.Sprintf("closes=%v", closes), func(t *testing.T) {
			w := newWorld(t, nil)
			w.Topic("t", 1)
			w.produce("t", 200, 10)
			brokers := Bootstrap(w.Fake.ListenAddrs()...)
			open := make(chan struct{})
			a := w.run(w.judge("a", func(_ context.Context, r *Record) error {
				if string(r.Key) == "k0" {
					<-open
				}
				return nil
			}), brokers)
			w.until("only k0 is left", func() bool { return w.count() == 180 })
			var closed sync.WaitGroup
			if closes {
				closed.Go(a.close)
			} else {
				w.run(w.judge("b", nil), brokers)
			}
			w.until("a gives the partition up", func() bool { return len(a.current().runner.Positions(tpOf("t", 0))) == 0 })
			close(open)
			closed.Wait()
			if closes {
				w.run(w.judge("b", nil), brokers)
			}
			w.ProduceRecords([]*kgo.Record{{Topic: "t", Key: []byte("last")}})
			w.until("the last record", func() bool { return w.count() >= 201 })
			w.wantOnce("t", 200, 10)
			if w.count() != 201 {
				t.Errorf("%d records", w.count())
			}
		})
	}
}

func TestWholePartitionsWhereSharingIsOff(t *testing.T) {
	for name, change := range map[string]func(*gateway.Config){
		"commits": func(c *gateway.Config) { c.IndividualCommits = false },
		"fetch":   func(c *gateway.Config) { c.KeyRangeFetch = false },
		"topic": func(c *gateway.Config) {
			off := false
			c.Topics = map[string]gateway.TopicConfig{"t": {KeyRangeFetch: &off}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			w.Topic("t", 1)
			w.produce("t", 300, 50)
			a, b := w.run(w.judge("a", nil), ShareByKey()), w.run(w.judge("b", nil), ShareByKey())
			w.until("300 records", func() bool { return w.count() >= 300 })
			if n := len(a.Assigned()) + len(b.Assigned()); n > 1 {
				t.Errorf("%d have the partition", n)
			}
			a.close()
			b.close()
			w.wantOnce("t", 300, 50)
		})
	}
}

func TestNoResetIsAnError(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	if err := w.run(w.judge("a", nil), ResetOffset(NoReset)).result(); err == nil {
		t.Error("it began without an offset")
	}
}

func TestCloseWhileNothingIsReachable(t *testing.T) {
	w := newWorld(t, nil)
	c := w.run(w.judge("a", nil), Bootstrap("127.0.0.1:1"), KgoOpts(kgo.DialTimeout(time.Second)))
	time.Sleep(50 * time.Millisecond) // it tries
	c.close()
	if err := c.result(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d, err := New(w.options()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(ctx, w.judge("d", nil)); err != nil {
		t.Error(err)
	}
}
