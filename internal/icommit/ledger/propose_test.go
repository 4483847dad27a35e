package ledger

import (
	"errors"
	"strconv"
	"testing"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
	"pgregory.net/rapid"
)

// propose appends to the log what a transaction would, as if it were committed at once.
func (l *log) propose(t *testing.T, to *Ledger, era int64, facts []region.Fact) {
	t.Helper()
	records, err := to.Propose(base, [16]byte{}, era, facts)
	if err != nil {
		t.Fatal(err)
	}
	l.records = append(l.records, records...)
}

func TestPropose(t *testing.T) {
	l, g := newLog(), newLedger()
	l.propose(t, g, 0, single(5, 9))
	l.want(t, "[5-9]")
	if g.Era() != -1 || g.Ranges(0) != 0 {
		t.Errorf("what is not decided is known: era %d, %d ranges", g.Era(), g.Ranges(0))
	}
	l.follow(g)
	l.propose(t, g, 0, single(6, 8)) // it is there
	l.propose(t, g, 0, single(10, 12))
	l.propose(t, g, 0, single(20, 21)) // the one before is not known here
	l.want(t, "[5-9], [5-12], [20-21]")
	l.add(t, g, 0, nil, 15)
	l.want(t, "[5-9], [5-12], [20-21], mark 15, null [5-9]")
	l.propose(t, g, 0, single(0, 14)) // a mark says it
	l.want(t, "[5-9], [5-12], [20-21], mark 15, null [5-9]")
	// A source row that others write may take it to where it was reset: everything is put.
	l.propose(t, g, 3, single(0, 9))
	l.want(t, "[5-9], [5-12], [20-21], mark 15, null [5-9], [0-9]")
	l.follow(g)
	if of, err := g.Propose(base, [16]byte{}, 2, single(5, 9)); of != nil || !errors.Is(err, ErrOver) {
		t.Errorf("of an era that is over: %v, %v", of, err)
	}
	if of, err := g.Propose(base, [16]byte{}, 3, nil); len(of) > 0 || err != nil {
		t.Errorf("no facts: %v, %v", of, err)
	}
}

// The facts of a topic that was deleted and made anew are none of the one before, though they name the same era.
func TestProposeForATopicThatWasMadeAnew(t *testing.T) {
	g := newLedger()
	r := put(5, 9)
	r.TopicID = [16]byte{1}
	g.Replay([]record.Record{r})
	if of, err := g.Propose(base, [16]byte{1}, 0, single(20, 21)); len(of) != 1 || err != nil {
		t.Errorf("of the topic itself: %v, %v", of, err)
	}
	if of, err := g.Propose(base, [16]byte{2}, 0, single(5, 9)); of != nil || !errors.Is(err, ErrOver) {
		t.Errorf("of a topic of its name: %v, %v", of, err)
	}
}

// What a ledger that reads the log has is done, whatever the source row says, which can be set back to any that was written in
// the era: so nothing may be left out, or deleted, because a source row of a transaction covers it.
func TestWhatTransactionsDidNeedsNoSourceRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const offsets = 30
		var l []record.Record
		gateways := []*Ledger{newLedger(), newLedger()}
		read := map[*Ledger]int{}
		follow := func(g *Ledger) {
			g.Replay(l[read[g]:])
			read[g] = len(l)
		}
		stableOf := func(g *Ledger) int64 { return g.look(base).Next(keyrange.Full, 0, nil) }
		var done [8][offsets]bool
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			g := rapid.SampledFrom(gateways).Draw(t, "gateway")
			if rapid.Bool().Draw(t, "follows") {
				follow(g)
			}
			first := rapid.Int64Range(0, offsets-1).Draw(t, "first")
			part := rapid.Int32Range(0, 7).Draw(t, "keys")
			f := region.Fact{Keys: keyrange.OfSlice(part, 8), First: first, Last: min(offsets-1, first+rapid.Int64Range(0, 4).Draw(t, "more"))}
			if rapid.IntRange(0, 4).Draw(t, "all keys") == 0 {
				f.Keys = keyrange.Full
			}
			switch rapid.SampledFrom([]string{"commit", "commit", "commit", "below", "row"}).Draw(t, "step") {
			case "commit": // committed at once
				records, err := g.Propose(base, [16]byte{}, 0, []region.Fact{f})
				if err != nil {
					t.Fatal(err)
				}
				l = append(l, records...)
				for j := range done {
					for o := f.First; o <= f.Last && keyrange.OfSlice(int32(j), 8).Overlaps(f.Keys); o++ {
						done[j][o] = true
					}
				}
			case "below": // somebody cleans up
				a, err := g.Add(base, [16]byte{}, 0, nil, stableOf(g))
				if err != nil {
					t.Fatal(err)
				}
				if a != nil {
					l = append(l, a.Puts()...)
					l = append(l, a.Stored()...)
					a.Deleted(true)
				}
			case "row": // a source row that counts all that is decided is seen
				follow(g)
				p := progress.NewPicture(nil)
				text := "tandem:1:0:" + strconv.FormatInt(stableOf(g), 10)
				p.SetSource(progress.Row{Offset: stableOf(g), Metadata: &text})
				g.Attach(p, base, [16]byte{}, func(f progress.Facts) progress.Facts { return f })
			}
		}
		fresh := newLedger()
		fresh.Replay(compacted(l))
		for j := range done {
			for o, is := range done[j] {
				if at := fresh.look(base).Next(keyrange.OfSlice(int32(j), 8), int64(o), nil); is != (at > int64(o)) {
					t.Fatalf("offset %d of slice %d: done %v, but next is %d", o, j, is, at)
				}
			}
		}
	})
}

// compacted is what is left of a log, without tombstones.
func compacted(l []record.Record) (left []record.Record) {
	last := map[id]int{}
	for i := range l {
		last[idOf(&l[i])] = i
	}
	for i := range l {
		if last[idOf(&l[i])] == i && !l[i].Delete {
			left = append(left, l[i])
		}
	}
	return left
}
