package consume

import (
	"errors"
	"testing"

	"github.com/tandem-kafka/tandem/client"
)

func TestTally(t *testing.T) {
	var tally Tally
	h := tally.Hook()
	for i, err := range []error{nil, nil, errors.New("no"), nil} {
		h.Handled("orders", 0, 0, err)
		if i == 2 {
			h.Event(client.Event{Kind: client.Failed})
		}
	}
	for _, k := range []client.EventKind{client.DeadLettered, client.Skipped, client.Skipped, client.Failed, client.Overdue, client.Backlog} {
		h.Event(client.Event{Kind: k})
	}
	if got := tally.String(); got != "3 done, 2 failed attempts, 1 dead letters, 2 skipped" {
		t.Error(got)
	}
}
