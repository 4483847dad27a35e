package client

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/keyrange"
)

// logs are what a member logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) has(text string) bool { return strings.Contains(l.text(), text) }

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) option() Option { return Logger(slog.New(slog.NewTextHandler(l, nil))) }

// A member that did not opt in has a whole partition of its own, and others share what is left. Where nothing is left for
// somebody, the log says why.
func TestMembersThatDidNotOptIn(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 2)
	var left logs
	whole := w.run(w.judge("whole", nil), KgoOpts(kgo.InstanceID("first"))) // static members come first
	w.until("it has all", func() bool { return len(whole.Assigned()["t"]) == 2 })
	var sharers []*member
	for i := range 3 {
		sharers = append(sharers, w.run(w.judge(fmt.Sprint(i), nil), ShareByKey()))
	}
	w.until("all have a part", func() bool {
		mine := whole.Assigned()["t"]
		if len(mine) != 1 {
			return false
		}
		var sum uint64
		for _, s := range sharers {
			of := s.Assigned()["t"]
			for p, keys := range of {
				if _, both := mine[p]; both || len(of) != 1 {
					return false
				}
				sum += keys.Len()
			}
		}
		for _, keys := range mine {
			return keys.Covers(keyrange.Full) && sum == keyrange.Full.Len()
		}
		return false
	})
	w.produce("t", 500, 50)
	w.until("500 records", func() bool { return w.count() >= 500 })
	w.wantOnce("t", 500, 50)

	two := []*member{w.run(w.judge("whole 2", nil), left.option()), w.run(w.judge("whole 3", nil), left.option())}
	w.until("who has nothing is told why", func() bool {
		none := 0
		for _, m := range append(two, whole) {
			if len(m.Assigned()) == 0 {
				none++
			}
		}
		return none > 0 && left.has("less than it may expect") && left.has("opt in")
	})
}
