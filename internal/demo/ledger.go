package demo

import (
	"sync"
	"time"
)

// ledger notes every record's handling and judges it. It is told before and
// after, so it sees two handlers on one key at a time.
type ledger struct {
	mu         sync.Mutex
	keys       map[string]*keyState
	total      int
	finished   int
	duplicates int
	violations int
	lastDone   time.Time
}

type keyState struct {
	want int    // records of the key: 0 to want-1
	next int    // the next one to handle
	busy string // the consumer that is handling one
}

func newLedger() *ledger { return &ledger{keys: map[string]*keyState{}, lastDone: time.Now()} }

// expect adds a record of the key and returns its number.
func (l *ledger) expect(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[key]
	if k == nil {
		k = &keyState{}
		l.keys[key] = k
	}
	k.want++
	l.total++
	return k.want - 1
}

// begin notes that the consumer starts on a record.
func (l *ledger) begin(consumer, key string, seq int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[key]
	if k == nil || seq >= k.want || seq > k.next || k.busy != "" {
		l.violations++ // foreign, ahead of an earlier one, or beside another
	}
	if k != nil {
		k.busy = consumer
	}
}

// end notes that the consumer is done with the record or, when it was killed
// over it, only that it works on it no longer.
func (l *ledger) end(consumer, key string, seq int, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[key]
	if k == nil {
		return
	}
	if k.busy == consumer {
		k.busy = ""
	}
	if !done {
		return
	}
	l.lastDone = time.Now()
	switch {
	case seq < k.next:
		l.duplicates++
	case seq == k.next:
		k.next++
		l.finished++
	default: // begin has counted it; go on behind it
		l.finished++
		k.next = seq + 1
	}
}

func (l *ledger) done() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.finished
}

// complete says whether nothing is left, and since when nothing was done.
func (l *ledger) complete() (all bool, idle time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.finished == l.total, time.Since(l.lastDone)
}

func (l *ledger) verdict() (lost, duplicates, violations int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total - l.finished, l.duplicates, l.violations
}
