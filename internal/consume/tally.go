package consume

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tandem-kafka/tandem/client"
)

// Tally counts what became of the records. The zero Tally is ready.
type Tally struct {
	done, failed, letters, skipped atomic.Int64
}

// Hook are the functions that count.
func (t *Tally) Hook() client.Hook {
	return client.Hook{
		Handled: func(_ string, _ int32, _ time.Duration, err error) {
			if err == nil {
				t.done.Add(1)
			}
		},
		Event: func(e client.Event) {
			switch e.Kind {
			case client.Failed:
				t.failed.Add(1)
			case client.DeadLettered:
				t.letters.Add(1)
			case client.Skipped:
				t.skipped.Add(1)
			}
		},
	}
}

// String is the tally in one line.
func (t *Tally) String() string {
	return fmt.Sprintf("%d done, %d failed attempts, %d dead letters, %d skipped", t.done.Load(), t.failed.Load(), t.letters.Load(), t.skipped.Load())
}
