package ledger

import (
	"slices"
	"testing"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// What is done at all positions in one base is done in each, whoever says it, in whichever order, and from the log; the rest is not.
func TestWhatIsDoneAtAllPositionsCountsForEveryBase(t *testing.T) {
	low, high := keyrange.OfSlice(0, 2), keyrange.OfSlice(1, 2)
	facts := []struct {
		base int32
		of   region.Fact
	}{
		{2, region.Fact{Keys: keyrange.Full, First: 20, Last: 24}},
		{2, region.Fact{Keys: low, First: 30, Last: 39}},
		{4, region.Fact{Keys: keyrange.Full, First: 50, Last: 50}},
		{2, region.Fact{Keys: high, First: 35, Last: 45}},
		{8, region.Fact{Keys: low, First: 60, Last: 69}},
		{4, region.Fact{Keys: high, First: 20, Last: 29}},
	}
	want := map[int32][]region.Fact{
		1: {fact(20, 24), fact(35, 39), fact(50, 50)},
		2: {fact(20, 24), fact(35, 39), fact(50, 50), {Keys: low, First: 30, Last: 34}, {Keys: high, First: 40, Last: 45}},
		4: {fact(20, 24), fact(35, 39), fact(50, 50), {Keys: high, First: 25, Last: 29}},
		8: {fact(20, 24), fact(35, 39), fact(50, 50), {Keys: low, First: 60, Last: 69}},
	}
	for first := range facts {
		for asked := range 2 { // for a base that has no facts yet
			l := newLedger()
			var log []record.Record
			for i := range facts {
				f := facts[(first+i)%len(facts)]
				a, err := l.Add(f.base, [16]byte{}, 1, []region.Fact{f.of}, 10)
				if err != nil {
					t.Fatal(err)
				}
				log = append(append(log, a.Puts()...), a.Stored()...)
				a.Deleted(true)
				if asked == 1 {
					l.look(16)
				}
			}
			replayed := newLedger()
			replayed.Replay(log)
			for _, from := range []*Ledger{l, replayed} {
				for base, done := range want {
					expected := region.New(10)
					expected.Add(done...)
					got, _ := from.look(base).Committed(keyrange.Set{keyrange.Full}, 0, 0)
					if of, _ := expected.Committed(keyrange.Set{keyrange.Full}, 0, 0); !equal(got, of) {
						t.Errorf("from fact %d on, base %d: %v is done, not %v", first, base, got, of)
					}
				}
			}
			if n := l.Ranges(1); n > len(facts)+3 {
				t.Errorf("%d facts count as %d offset ranges", len(facts), n)
			}
		}
	}
}

// A base that nobody but this one has makes nothing for others.
func TestOneBaseAloneIsNotCopied(t *testing.T) {
	l, g := newLog(), newLedger()
	l.add(t, g, 0, single(5, 9), 0)
	l.add(t, g, 0, single(15, 19), 0)
	if g.shared != nil {
		t.Error("there is a copy")
	}
}

func equal(a, b []region.Committed) bool {
	return slices.EqualFunc(a, b, func(x, y region.Committed) bool { return x.Keys == y.Keys && slices.Equal(x.Offsets, y.Offsets) })
}
