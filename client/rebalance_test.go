package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// slowly takes a moment for each record.
func slowly(context.Context, *Record) error {
	time.Sleep(time.Millisecond)
	return nil
}

func TestMembersComeAndGoWithoutDuplicates(t *testing.T) {
	for _, cooperative := range []bool{false, true} {
		t.Run(fmt.Sprintf("cooperative=%t", cooperative), func(t *testing.T) {
			w := newWorld(t, nil)
			w.Topic("t", 1)
			w.produce("t", 6000, 50)
			opts := []Option{ShareByKey(), Concurrency(4)}
			if cooperative {
				opts = append(opts, Cooperative())
			}
			var clients []*member
			for i := range 4 {
				clients = append(clients, w.run(w.judge(fmt.Sprint(i), slowly), opts...))
				n := w.count()
				w.until("it goes on", func() bool { return w.count() > n+300 || w.count() >= 6000 })
			}
			for _, c := range clients[:3] {
				c.close()
				n := w.count()
				w.until("it goes on", func() bool { return w.count() > n+300 || w.count() >= 6000 })
			}
			w.until("6000 records", func() bool { return w.count() >= 6000 })
			clients[3].close()
			w.wantOnce("t", 6000, 50)
		})
	}
}

// With the default settings keys change hands in less than a second, whoever of the group is to notice.
func TestHandoverIsQuick(t *testing.T) {
	for _, cooperative := range []bool{false, true} {
		t.Run(fmt.Sprintf("cooperative=%t", cooperative), func(t *testing.T) {
			w := newWorld(t, nil)
			w.Topic("t", 1)
			opts := []Option{ShareByKey(), KgoOpts(kgo.HeartbeatInterval(heartbeatInterval))}
			if cooperative {
				opts = append(opts, Cooperative())
			}
			a := w.run(w.judge("a", nil), opts...)
			share := func(c *member) uint64 { return c.Assigned()["t"][0].Len() }
			w.until("it has all", func() bool { return share(a) == 1<<32 })
			quickly := func(what string, done func() bool) {
				t.Helper()
				start := time.Now()
				w.until(what, done)
				if took := time.Since(start); took > time.Second {
					t.Errorf("%s: after %v", what, took)
				}
			}
			b := w.run(w.judge("b", nil), opts...)
			quickly("each has half", func() bool { return share(a) == 1<<31 && share(b) == 1<<31 })
			b.close()
			quickly("it has all again", func() bool { return share(a) == 1<<32 })
		})
	}
}

func TestTheLeaderLooksForNewPartitions(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	c := w.run(w.judge("a", nil))
	w.until("it is assigned", func() bool { return len(c.Assigned()) > 0 })
	if age, ok := c.current().group.OptValue(kgo.MetadataMaxAge).(time.Duration); !ok || age > 10*time.Second {
		t.Errorf("new partitions may wait for %v", age)
	}
}

func TestARestartGivesNothingAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 1000, 100)
	block := make(chan struct{})
	var blocked atomic.Int32
	c := w.run(w.judge("a", func(ctx context.Context, r *Record) error {
		if string(r.Key) == "k0" { // offset 0 is not done
			blocked.Add(1)
			select {
			case <-block:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		return nil
	}), DrainTimeout(100*time.Millisecond))
	w.until("990 records", func() bool { return w.count() >= 990 && blocked.Load() == 1 })
	c.close()
	d := w.run(w.judge("b", nil))
	w.until("1000 records", func() bool { return w.count() >= 1000 })
	d.close()
	w.wantOnce("t", 1000, 100)
}

func TestCallbacksTellKeyRanges(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	var assigned, revoked atomic.Uint64
	count := func(n *atomic.Uint64) func(context.Context, Ranges) {
		return func(_ context.Context, r Ranges) { n.Add(r["t"][0].Len()) }
	}
	c := w.run(w.judge("a", nil), ShareByKey(), OnAssigned(count(&assigned)), OnRevoked(count(&revoked)))
	w.until("all", func() bool { return assigned.Load() == 1<<32 })
	d := w.run(w.judge("b", nil), ShareByKey())
	w.until("half", func() bool { return revoked.Load() >= 1<<31 && len(d.Assigned()) > 0 && len(c.Assigned()) > 0 })
	c.close()
	if a, r := assigned.Load(), revoked.Load(); a != r || a != 3<<31 { // eager: all, then half
		t.Errorf("assigned %x, revoked %x", a, r)
	}
}

func TestLatestBeginsAtTheEndAndStaysThere(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 100, 10)
	c := w.run(w.judge("a", nil), ResetOffset(Latest))
	w.until("it is assigned", func() bool { return len(c.Assigned()) > 0 })
	c.close()
	w.produce("t", 50, 10) // while nobody is there
	d := w.run(w.judge("b", nil), ResetOffset(Latest))
	w.until("50 records", func() bool { return w.count() >= 50 })
	d.close()
	w.wantOnce("t", 50, 10)
}
