package facts

import (
	"slices"

	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// grains are the parts of the key axis that the model tells apart.
const grains = 8

const grainBits = 32 - 3

// grainsOf is the key range of the grains first to last.
func grainsOf(first, last int) keyrange.Range {
	return keyrange.Range{First: uint32(first) << grainBits, Last: uint32(last+1)<<grainBits - 1}
}

// bases that key positions can be of: the group changes to another when its source grows.
const bases = 2

// record is one record of the source partition.
type record struct {
	offset int64
	grain  [bases]int
	open   bool // has to be done, and to be committed
	done   bool // by a member that may not have committed it yet
	// lenient: opened again by something the source row need not know.
	lenient bool
	// acked: committed and answered, and nothing was lost since: who asks for the facts of the base is not given it again.
	acked [bases]bool
	// said are the grains of each base for which the record's offset is: with all of one base it is acked for every base.
	said [bases][grains]bool
	// once: a transaction that was committed has done it, and nothing happened since that may have it done again.
	once     [bases]bool
	reopened int64 // when it last had to be done again, or not any more, by the world's clock
}

func (r *record) in(keys keyrange.Range, base int) bool {
	return keys.Contains(uint32(r.grain[base]) << grainBits)
}

// ack: a fact with the record's offset was committed and answered.
func (r *record) ack(keys keyrange.Range, base int) {
	for g := range grains {
		r.said[base][g] = r.said[base][g] || keys.Contains(uint32(g)<<grainBits)
	}
	r.acked[base] = r.acked[base] || r.in(keys, base)
	if !slices.Contains(r.said[base][:], false) {
		for b := range r.acked {
			r.acked[b] = true
		}
	}
}

// within reports whether a fact says that the record is done.
func (r *record) within(f region.Fact, base int) bool {
	return f.First <= r.offset && r.offset <= f.Last && r.in(f.Keys, base)
}

// produce appends records with gaps between them, as compaction and markers leave them.
func (w *world) produce() {
	few := w.chance(30) // keys of one half only
	for range 1 + w.rng.IntN(10) {
		if w.chance(25) {
			w.end += int64(1 + w.rng.IntN(3))
		}
		r := &record{offset: w.end, open: true}
		for b := range r.grain {
			if r.grain[b] = w.rng.IntN(grains); few {
				r.grain[b] /= 2
			}
		}
		w.records = append(w.records, r)
		w.end++
	}
	if w.chance(20) {
		w.end++
	}
}

// next is the first record at or behind an offset in a key range.
func (w *world) next(keys keyrange.Range, base int, from int64) int64 {
	for _, r := range w.records {
		if r.offset >= from && r.in(keys, base) {
			return r.offset
		}
	}
	return max(from, w.end)
}

// truth is what holds no record, for the pictures of a base.
func (w *world) truth(base int) progress.NextRecord {
	return func(view int, slice int32, from int64) int64 {
		return w.next(keyrange.OfSlice(slice, w.byBase[base][view].K), base, from)
	}
}

// ownEnd is the last record of a key range, + 1.
func (w *world) ownEnd(keys keyrange.Range, base int) (end int64) {
	for _, r := range w.records {
		if r.in(keys, base) {
			end = r.offset + 1
		}
	}
	return end
}

// reopenFrom: a reset. Below an offset everything is done, from there on nothing is.
func (w *world) reopenFrom(offset int64) {
	for _, r := range w.records {
		r.open, r.lenient, r.done = r.offset >= offset, false, false
		w.reopened(r)
	}
	w.external("a reset")
	for b := range w.rows {
		w.rows[b] = [grains]int64{}
	}
}

// discard: the rules may have what was committed handed out again.
func (w *world) discard(why string) {
	w.logf("what was committed may be handed out again: %s", why)
	w.discards++
	for _, r := range w.records {
		r.acked, r.said = [bases]bool{}, [bases][grains]bool{}
	}
}
