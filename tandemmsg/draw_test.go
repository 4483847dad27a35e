package tandemmsg

import (
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
	"pgregory.net/rapid"
)

// drawBounds draws the ends of up to most disjoint ranges in order, some of which touch, with both ends of [0, limit] likely.
func drawBounds(t *rapid.T, label string, least, most int, limit int64) []int64 {
	n := rapid.IntRange(least, most).Draw(t, label)
	number := rapid.OneOf(rapid.Int64Range(0, limit), rapid.Int64Range(0, 20), rapid.Int64Range(limit-20, limit))
	starts := rapid.SliceOfNDistinct(number, n, n, rapid.ID[int64]).Draw(t, label)
	slices.Sort(starts)
	var bounds []int64
	for i, first := range starts {
		last := limit
		if i+1 < n {
			last = starts[i+1] - 1
		}
		if rapid.Bool().Draw(t, "gap") {
			last = rapid.Int64Range(first, last).Draw(t, "last")
		}
		bounds = append(bounds, first, last)
	}
	return bounds
}

func drawKeys(t *rapid.T, least int) keyrange.Set {
	var set keyrange.Set
	for b := drawBounds(t, "keys", least, 5, maxPosition); len(b) > 0; b = b[2:] {
		set = append(set, keyrange.Range{First: uint32(b[0]), Last: uint32(b[1])})
	}
	return set
}

func drawOffsets(t *rapid.T, least int) []OffsetRange {
	var ranges []OffsetRange
	for b := drawBounds(t, "offsets", least, 8, MaxOffset); len(b) > 0; b = b[2:] {
		ranges = append(ranges, OffsetRange{b[0], b[1]})
	}
	return ranges
}

func drawCommitted(t *rapid.T) []KeyRangeOffsets {
	var committed []KeyRangeOffsets
	for _, keys := range drawKeys(t, 0) {
		committed = append(committed, KeyRangeOffsets{keys, append([]OffsetRange{}, drawOffsets(t, 0)...)})
	}
	return committed
}

// drawBase draws a base, or 0 for none.
func drawBase(t *rapid.T) int32 { return rapid.Int32Min(0).Draw(t, "base") }

func drawCommit(t *rapid.T) Commit {
	if rapid.Bool().Draw(t, "watermark") {
		return Commit{Keys: drawKeys(t, 1), Base: drawBase(t), Watermark: rapid.Int64Min(0).Draw(t, "watermark")}
	}
	return Commit{Keys: drawKeys(t, 0), Base: drawBase(t), Offsets: drawOffsets(t, 1), Watermark: -1}
}
