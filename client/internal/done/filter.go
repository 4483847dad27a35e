package done

import (
	"slices"

	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Committed is what OffsetFetch answered of one key range: offset ranges that are done, sorted and disjoint.
type Committed struct {
	Keys   keyrange.Range
	Ranges []offsets.Range
}

// Filter tells which records are committed already. It is asked for offsets in rising order and forgets what lies behind.
type Filter struct{ parts []Committed }

// NewFilter makes a filter of what OffsetFetch answered; nil if that is nothing. The filter keeps the ranges, and does not
// change them.
func NewFilter(committed []Committed) *Filter {
	f := &Filter{parts: slices.Clone(committed)}
	f.forget(0)
	if len(f.parts) == 0 {
		return nil
	}
	return f
}

func (f *Filter) forget(offset int64) {
	f.parts = slices.DeleteFunc(f.parts, func(c Committed) bool {
		return len(c.Ranges) == 0 || c.Ranges[len(c.Ranges)-1].Last < offset
	})
}

// Has reports whether the record at a key position and an offset is committed. Offsets do not fall from call to call. A nil
// filter has nothing.
func (f *Filter) Has(position uint32, offset int64) bool {
	if f == nil {
		return false
	}
	over := false
	for i := range f.parts {
		c := &f.parts[i]
		if !c.Keys.Contains(position) {
			continue
		}
		for len(c.Ranges) > 0 && c.Ranges[0].Last < offset {
			c.Ranges = c.Ranges[1:]
		}
		if over = over || len(c.Ranges) == 0; len(c.Ranges) > 0 && c.Ranges[0].Contains(offset) {
			return true
		}
	}
	if over {
		f.forget(offset)
	}
	return false
}

// Empty reports whether nothing is left that an offset to come could be in.
func (f *Filter) Empty() bool { return f == nil || len(f.parts) == 0 }

// Clone is a filter that is asked for offsets of its own.
func (f *Filter) Clone() *Filter {
	if f == nil {
		return nil
	}
	return &Filter{parts: slices.Clone(f.parts)}
}
