package cases

import (
	"errors"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kerr"
)

// A member of an old generation commits offset ranges, or a watermark, of the key range that it had: it is refused with the error that its
// library understands, the stable offset stays, and nothing above it is done. So is one that has left (case I10).
func TestLateIndividualCommitChangesNothing(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		topic := harness.Name(t, "orders")
		harness.CreateTopic(t, e.kafka, topic, 1)
		group := harness.Name(t, "group")
		low, high := keyrange.Set{keyrange.OfSlice(0, 2)}, keyrange.Set{keyrange.OfSlice(1, 2)}
		first, second := e.wire(t, group), e.wire(t, group)
		first.join(topic, 1)
		first.mustCommit(topic, 0, tandemmsg.Commit{Keys: whole, Watermark: 10})
		first.mustCommit(topic, 0, rangesOf(whole, span(20, 29)))
		const had = "10 [00000000-ffffffff] [20-29]"
		late := *first
		joinAll(topic, first, second)
		if late.generation == first.generation {
			t.Fatal("there is no new generation")
		}
		refused := func(who *wire, want ...error) {
			t.Helper()
			for _, c := range []tandemmsg.Commit{
				rangesOf(high, span(10, 19)), rangesOf(nil, span(10, 12)), {Keys: high, Watermark: 100}, {Keys: whole, Watermark: 15}, rangesOf(whole, span(40, 49)),
			} {
				err := who.commit(topic, 0, c)
				ok := false
				for _, w := range want {
					ok = ok || errors.Is(err, w)
				}
				if !ok {
					t.Errorf("a late commit of %+v: %v, want %v", c, err, want)
				}
				second.wantProgress(topic, had)
			}
		}
		refused(&late, kerr.IllegalGeneration)
		if at := e.committed(t, group, topic)[0]; at != 10 {
			t.Errorf("the stable offset on the cluster is %d, not 10", at)
		}
		// Both of the new generation go on, and what the late one said does not count in it.
		first.mustCommit(topic, 0, rangesOf(low, span(10, 19)))
		first.wantProgress(topic, "10 [00000000-7fffffff] [10-29] [80000000-ffffffff] [20-29]")
		second.mustCommit(topic, 0, tandemmsg.Commit{Keys: high, Watermark: 15})
		first.wantProgress(topic, "15 [00000000-7fffffff] [15-29] [80000000-ffffffff] [20-29]")
		gone := *second
		second.leave()
		if err := gone.commit(topic, 0, rangesOf(high, span(15, 19))); !errors.Is(err, kerr.UnknownMemberID) {
			t.Errorf("a commit after leaving: %v", err)
		}
		first.wantProgress(topic, "15 [00000000-7fffffff] [15-29] [80000000-ffffffff] [20-29]")
		// Nor does it count after a gateway that knows nothing but the log has taken over.
		e.gateway.Kill()
		e.gateway.Start(t)
		first.wantProgress(topic, "15 [00000000-7fffffff] [15-29] [80000000-ffffffff] [20-29]")
	})
}
