package done

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
)

func TestFilterHasWhatWasCommitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var committed []Committed
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			first := rapid.Uint32Range(0, 9).Draw(t, "first")
			c := Committed{Keys: keyrange.Range{First: first, Last: first + rapid.Uint32Range(0, 5).Draw(t, "width")}}
			o := int64(0)
			for range rapid.IntRange(0, 5).Draw(t, "ranges") {
				o += rapid.Int64Range(1, 4).Draw(t, "gap")
				last := o + rapid.Int64Range(0, 3).Draw(t, "length")
				c.Ranges = append(c.Ranges, offsets.Range{First: o, Last: last})
				o = last + 1
			}
			committed = append(committed, c)
		}
		f := NewFilter(committed)
		offset := int64(0)
		for range 60 {
			position := rapid.Uint32Range(0, 15).Draw(t, "position")
			want := slices.ContainsFunc(committed, func(c Committed) bool {
				return c.Keys.Contains(position) && slices.ContainsFunc(c.Ranges, func(r offsets.Range) bool { return r.Contains(offset) })
			})
			if got := f.Has(position, offset); got != want {
				t.Fatalf("Has(%d, %d) = %v with %v", position, offset, got, committed)
			}
			if rapid.IntRange(0, 9).Draw(t, "clone") == 0 {
				f = f.Clone()
			}
			offset += rapid.Int64Range(0, 2).Draw(t, "step")
		}
		if f.Has(0, 1000); !f.Empty() {
			for p := range uint32(15) {
				f.Has(p, 1000)
			}
		}
		if !f.Empty() {
			t.Fatalf("still %+v", f)
		}
	})
}
