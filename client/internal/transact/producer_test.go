package transact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/commits"
)

// script is what clients of a test answer, and what they were asked.
type script struct {
	errs  map[string]error // of the first call of each kind
	took  time.Duration    // of a flush
	calls []string
}

func (s *script) call(name string) error {
	s.calls = append(s.calls, name)
	err := s.errs[name]
	delete(s.errs, name)
	return err
}

// fake is a client of the script.
type fake struct{ *script }

func (f fake) ProducerID(context.Context) (int64, int16, error) { return 7, 1, f.call("id") }
func (f fake) BeginTransaction() error                          { return f.call("begin") }
func (f fake) AbortBufferedRecords(context.Context) error       { return f.call("drop") }
func (f fake) Close()                                           { _ = f.call("close") }

func (f fake) Produce(_ context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	promise(r, f.call("produce"))
}

func (f fake) Flush(ctx context.Context) error {
	select {
	case <-time.After(f.took):
		return f.call("flush")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f fake) EndTransaction(_ context.Context, commit kgo.TransactionEndTry) error {
	return f.call(map[kgo.TransactionEndTry]string{kgo.TryCommit: "commit", kgo.TryAbort: "abort"}[commit])
}

var errNetwork = errors.New("connection reset")

// What is done after each error, and how the transaction counts then.
func TestOutcomes(t *testing.T) {
	const write, end, anew = "id begin produce flush id", " drop abort", " close open id"
	for name, c := range map[string]struct {
		errs    map[string]error
		took    time.Duration
		outcome Outcome
		want    error
		calls   string
	}{
		"well":                       {nil, 0, Committed, nil, write + " offsets commit"},
		"no id":                      {map[string]error{"id": errNetwork}, 0, Aborted, errNetwork, "id close"},
		"no begin":                   {map[string]error{"begin": errNetwork}, 0, Aborted, errNetwork, "id begin close"},
		"a record is refused":        {map[string]error{"produce": kerr.MessageTooLarge}, 0, Aborted, kerr.MessageTooLarge, "id begin produce flush" + end},
		"offsets are refused":        {map[string]error{"offsets": kerr.IllegalGeneration}, 0, Aborted, kerr.IllegalGeneration, write + " offsets" + end},
		"no abort":                   {map[string]error{"offsets": kerr.IllegalGeneration, "abort": errNetwork}, 0, Aborted, kerr.IllegalGeneration, write + " offsets" + end + anew},
		"nothing was ended":          {map[string]error{"commit": kerr.OperationNotAttempted}, 0, Aborted, kerr.OperationNotAttempted, write + " offsets commit" + end},
		"an unknown end":             {map[string]error{"commit": errNetwork}, 0, Unknown, errNetwork, write + " offsets commit close"},
		"fenced":                     {map[string]error{"produce": kerr.InvalidProducerEpoch}, 0, Aborted, ErrFenced, "id begin produce flush close"},
		"fenced at the offsets":      {map[string]error{"offsets": kerr.ProducerFenced}, 0, Aborted, ErrFenced, write + " offsets close"},
		"fenced at the end":          {map[string]error{"commit": kerr.ProducerFenced}, 0, Unknown, ErrFenced, write + " offsets commit close"},
		"too late":                   {map[string]error{"offsets": kerr.InvalidProducerEpoch}, 6 * time.Second, Aborted, kerr.InvalidProducerEpoch, write + " offsets" + end},
		"too late, and no abort":     {map[string]error{"offsets": kerr.ProducerFenced, "abort": kerr.ProducerFenced}, 6 * time.Second, Aborted, kerr.ProducerFenced, write + " offsets" + end + anew},
		"later than the transaction": {nil, 11 * time.Second, Aborted, context.DeadlineExceeded, "id begin produce" + end},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{errs: c.errs, took: c.took}
				p := New("me", 10*time.Second, slog.New(slog.DiscardHandler), func() (Client, error) { return fake{s}, s.call("open") })
				out := &kgo.Record{Topic: "out"}
				outcome, err := p.Do(t.Context(), []*kgo.Record{out}, func(_ context.Context, txn commits.Transaction) error {
					if txn != (commits.Transaction{ID: "me", Producer: 7, Epoch: 1}) {
						t.Errorf("transaction %+v", txn)
					}
					return s.call("offsets")
				})
				if outcome != c.outcome || !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Errorf("outcome %d, %v", outcome, err)
				}
				if fenced := errors.Is(err, ErrFenced); fenced != (c.want == ErrFenced) || fenced && !Lasting(err) {
					t.Errorf("fenced: %v, %v", fenced, err)
				}
				if got := fmt.Sprint(s.calls); got != "[open "+c.calls+"]" {
					t.Errorf("calls %s, not %s", got, c.calls)
				}
				p.Close()
			})
		})
	}
}

// An id that was taken over is not asked for again, and after an error it is taken over anew.
func TestDecide(t *testing.T) {
	s := &script{errs: map[string]error{"open": errNetwork}}
	p := New("me", time.Second, slog.New(slog.DiscardHandler), func() (Client, error) { return fake{s}, s.call("open") })
	if err := p.Decide(t.Context()); !errors.Is(err, errNetwork) {
		t.Errorf("without a client: %v", err)
	}
	for range 2 {
		if err := p.Decide(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"open", "open", "id"}; !slices.Equal(s.calls, want) {
		t.Errorf("calls %v, not %v", s.calls, want)
	}
}
