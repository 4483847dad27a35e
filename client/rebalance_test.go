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

// Who leads notices new partitions, and whoever is in the group that it changes, within a fraction of a second; how long that makes a handover, bench measures.
func TestMembersLookOften(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	c, err := New(Bootstrap(w.Gateway.Addr()), Group("g"), Topics("t"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background(), w.judge("a", nil)) }()
	w.until("it is assigned", func() bool { return len(c.Assigned()) > 0 })
	group := c.current().group
	if d, ok := group.OptValue(kgo.HeartbeatInterval).(time.Duration); !ok || d > 300*time.Millisecond {
		t.Errorf("a heartbeat every %v", d)
	}
	if d, ok := group.OptValue(kgo.SessionTimeout).(time.Duration); !ok || d > 20*time.Second || d < 10*time.Second {
		t.Errorf("a member counts as dead after %v", d)
	}
	if d, ok := group.OptValue(kgo.MetadataMaxAge).(time.Duration); !ok || d > 10*time.Second {
		t.Errorf("new partitions may wait for %v", d)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
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
