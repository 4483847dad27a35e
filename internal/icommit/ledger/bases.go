package ledger

import (
	"math"

	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// A fact counts for the base that it names. But what is done at all positions is done whatever key positions are worked out with: so each
// region has what the others say of all positions, too. The log does not have it twice.

// everything is a fact for all positions and offsets.
var everything = region.Fact{Keys: keyrange.Full, Last: math.MaxInt64 - 1}

// region is that of a base, which it makes if there is none.
func (l *Ledger) region(base int32) *region.Region {
	r := l.regions[base]
	if r == nil {
		r = region.New(l.stable)
		if len(l.regions) > 0 {
			r.Add(l.common().Whole(keyrange.Full, everything)...)
		}
		l.regions[base] = r
	}
	return r
}

// look is the region of a base to look at: clients ask for any base, and those without facts are not to stay.
func (l *Ledger) look(base int32) *region.Region {
	switch r := l.regions[base]; {
	case r != nil:
		return r
	case len(l.regions) > 0:
		return l.common()
	}
	return region.New(l.stable)
}

// common is what counts for every base. It is worked out when it is first asked for, and kept up to date from then on.
func (l *Ledger) common() *region.Region {
	if l.shared == nil {
		l.shared = region.New(l.stable)
		for _, r := range l.regions {
			l.shared.Add(r.Whole(keyrange.Full, everything)...)
		}
	}
	return l.shared
}

// share tells the regions of other bases what new facts of a base complete.
func (l *Ledger) share(base int32, facts []region.Fact) {
	if l.shared == nil {
		return
	}
	whole := l.regions[base].Whole(keyrange.Full, facts...)
	if !l.shared.Add(whole...) {
		return
	}
	for other, r := range l.regions {
		if other != base {
			r.Add(whole...)
		}
	}
}
