package progress

import (
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Row is one committed offset as Kafka stores it.
type Row struct {
	Offset      int64 // -1: there is no such row
	LeaderEpoch int32 // -1: none
	Metadata    *string
	// Pending: a transaction that is not decided has written this row. What else the Row says is the last decided state:
	// where Kafka, asked for stable offsets only, gives none, it has to be asked again for any.
	Pending bool
}

// NoRow is what Kafka answers where nothing was committed.
var NoRow = Row{Offset: -1, LeaderEpoch: -1}

// View names a view of the source and says how many slices it makes of each partition.
type View struct {
	Name string
	K    int32 // a power of two >= 1
}

// Picture is what is known of the rows of one group for one source partition: the source row, and the rows of every view
// of the source. It may be old: rows of others are then too low, which makes the stable offset low.
type Picture struct {
	source row
	views  []View
	rows   [][]row // [view][slice]
	width  int32   // positions of the key axis that can differ: the largest K
	apart  int64   // the highest era in rows of views that the picture is not of
	facts  Facts   // nil: none
	fact   int64   // the era of facts; -1: there never were any
	open   Undecided
}

// Facts are what members have committed individually: done offsets by key range, see package region.
type Facts interface {
	// Next is the lowest offset from from on that is not done at some position of keys. empty moves an offset over
	// what is known to hold no record of keys; it may be nil.
	Next(keys keyrange.Range, from int64, empty func(from int64) int64) int64
}

// Undecided are facts in transactions that are not decided. They are not among Facts.
type Undecided interface {
	// Eras are those in which they would count, each once, in any order.
	Eras() []int64
	// Touches reports whether some of this era say anything of keys.
	Touches(era int64, keys keyrange.Range) bool
}

// row is a Row taken apart.
type row struct {
	offset  int64
	epoch   int32
	text    *string // the client's (view rows)
	tag     tag
	ours    bool // the text has our tag
	pending bool
}

func (r *row) present() bool { return r.offset >= 0 }

// counts reports whether a view row says something in this era; rows without a tag do, see Picture.at.
func (r *row) counts(era int64) bool { return r.present() && r.ours && r.tag.era == era }

// untagged reports whether a tool wrote the view row.
func (r *row) untagged() bool { return r.present() && !r.ours }

// NewPicture returns a picture without any row. views are all views of the source, in any fixed order: they are named by
// their index from here on.
func NewPicture(views []View) *Picture {
	p := &Picture{source: row{offset: -1, epoch: -1}, views: slices.Clone(views), width: 1, fact: -1}
	for _, v := range views {
		p.width = max(p.width, v.K)
		rows := make([]row, v.K)
		for i := range rows {
			rows[i] = row{offset: -1, epoch: -1}
		}
		p.rows = append(p.rows, rows)
	}
	return p
}

// Views returns the views that the picture is of.
func (p *Picture) Views() []View { return p.views }

// Width is the number of positions of the key axis that the picture tells apart: the largest K. Slice s of a view
// covers the positions j with j mod K = s.
func (p *Picture) Width() int32 { return p.width }

// Equal reports whether two pictures of the same views say the same.
func (p *Picture) Equal(o *Picture) bool {
	same := func(a, b row) bool {
		return a.offset == b.offset && a.ours == b.ours && a.tag == b.tag && a.pending == b.pending
	}
	return same(p.source, o.source) && p.apart == o.apart && slices.Equal(p.views, o.views) &&
		slices.EqualFunc(p.rows, o.rows, func(a, b []row) bool { return slices.EqualFunc(a, b, same) })
}

// SetSource replaces the source row.
func (p *Picture) SetSource(r Row) {
	n := row{offset: max(r.Offset, -1), epoch: r.LeaderEpoch, pending: r.Pending}
	if r.Metadata != nil && n.present() {
		n.tag, n.ours = parseSourceText(*r.Metadata, r.Offset)
	}
	p.source = n
}

// SetView replaces the row of a slice, in [0, K), of a view.
func (p *Picture) SetView(view int, slice int32, r Row) {
	n := row{offset: max(r.Offset, -1), epoch: r.LeaderEpoch, text: r.Metadata, pending: r.Pending}
	if n.present() {
		n.text, n.tag, n.ours = parseViewText(r.Metadata, r.Offset)
	}
	p.rows[view][slice] = n
}

// SetApart tells of a row of a view of the same source that cuts the key axis differently, so that its rows cannot be
// compared with those of the picture. It counts only in that a new era is above its own: otherwise it would come back to life
// when an era of the same number is opened again.
func (p *Picture) SetApart(r Row) {
	if _, t, ours := parseViewText(r.Metadata, r.Offset); ours && r.Offset >= 0 {
		p.apart = max(p.apart, t.era)
	}
}

// SetFacts tells of the facts of the highest era of which there are any; f is nil where they are of another base. They count
// while that is the current era, and a new era is above theirs.
func (p *Picture) SetFacts(era int64, f Facts) { p.facts, p.fact = f, era }

// SetUndecided tells of facts in transactions; nil: there are none. These and the facts are to be of one moment after the rows were read, and no older than the end of the
// log before that: what a transaction did is then seen in the rows or in the facts, whichever are decided first.
func (p *Picture) SetUndecided(u Undecided) { p.open = u }

// undecidedEras are the eras of facts in transactions.
func (p *Picture) undecidedEras() []int64 {
	if p.open == nil {
		return nil
	}
	return p.open.Eras()
}

// FactsEra is the era of the facts that the picture was told of, whether they count or not; -1: there never were any.
func (p *Picture) FactsEra() int64 { return p.fact }

// factsIn returns what counts in an era; nil: nothing. Without a source row nothing does: it has expired, or was deleted. Nor
// does anything in an era in which a slice was set back, by a rewind or by a tool: facts cannot be taken back, and nobody can say
// which of them came before.
func (p *Picture) factsIn(era int64) Facts {
	if era == p.fact && p.source.present() && p.source.ours && !p.setBack(era) {
		return p.facts
	}
	return nil
}

// HasFacts reports whether any facts count.
func (p *Picture) HasFacts() bool { return p.factsIn(p.Era()) != nil }

// setBack reports whether any row of an era goes back, or may.
func (p *Picture) setBack(era int64) bool {
	return slices.ContainsFunc(p.rows, func(rows []row) bool {
		return slices.ContainsFunc(rows, func(r row) bool { return r.untagged() || r.counts(era) && r.tag.voids() != 0 })
	})
}

// untagged reports whether there is any row of a tool.
func (p *Picture) untagged() bool {
	return slices.ContainsFunc(p.rows, func(rows []row) bool {
		return slices.ContainsFunc(rows, func(r row) bool { return r.untagged() })
	})
}

// outlived reports whether the era is over although the source row does not say so: the source row that the latest facts belong to
// has expired, or somebody who did not know of their era has written one of an era before.
func (p *Picture) outlived() bool {
	switch {
	case !p.source.present():
		return p.fact >= 0 && p.fact >= p.highestRow()
	case p.source.ours:
		return p.fact > p.source.tag.era
	}
	return false
}

// Any reports whether there is any row at all.
func (p *Picture) Any() bool {
	return p.source.present() || slices.ContainsFunc(p.rows, func(rows []row) bool {
		return slices.ContainsFunc(rows, func(r row) bool { return r.present() })
	})
}

// Clone returns a copy that can be used apart.
func (p *Picture) Clone() *Picture {
	n := *p
	n.rows = make([][]row, len(p.rows))
	for v := range p.rows {
		n.rows[v] = slices.Clone(p.rows[v])
	}
	return &n
}

// Source returns the offset of the source row, -1 if there is none, and whether it is ours.
func (p *Picture) Source() (offset int64, ours bool) { return p.source.offset, p.source.ours }

// Row returns the offset of a slice's own row, -1 where it has none that counts in the current era.
func (p *Picture) Row(view int, slice int32) int64 {
	r := &p.rows[view][slice]
	if r.counts(p.Era()) || r.untagged() {
		return r.offset
	}
	return -1
}

// base is the offset below which all is done that no rewind has set back; -1 without a source row.
func (p *Picture) base() int64 { return p.source.offset + p.source.tag.d }

// foreign reports whether the source row was written by somebody else: a new era is due.
func (p *Picture) foreign() bool { return p.source.present() && !p.source.ours }

// Foreign reports whether the next commit opens a new era. Whether the source row is pending matters then: see Env.
func (p *Picture) Foreign() bool { return p.foreign() }

// Opens reports whether an individual commit opens an era, now or after rows of tools have got one: what belongs to the one before it does not count then.
func (p *Picture) Opens() bool { return p.foreign() || p.outlived() || p.setBack(p.Era()) }

// Is reports whether the source row names this era.
func (p *Picture) Is(era int64) bool {
	return p.source.present() && p.source.ours && p.source.tag.era == era
}

// Era is the current era. Gateways that see the same rows find the same number.
func (p *Picture) Era() int64 {
	if p.source.present() && p.source.ours {
		return p.source.tag.era
	}
	if p.foreign() {
		return p.highestEra() + 1
	}
	return p.highestRow()
}

// highestEra is the highest era that any view row or fact names.
func (p *Picture) highestEra() int64 { return max(p.highestRow(), p.fact) }

// highestRow is the highest era that any view row names.
func (p *Picture) highestRow() int64 {
	highest := p.apart
	for _, rows := range p.rows {
		for i := range rows {
			if r := &rows[i]; r.present() && r.ours {
				highest = max(highest, r.tag.era)
			}
		}
	}
	return highest
}

// checksum is over the rewinds of an era: which slices were set back, and how often. It does not depend on the order of
// the views. 0: none was.
func (p *Picture) checksum(era int64) uint64 {
	sum := uint64(0)
	for v := range p.rows {
		for s := range p.rows[v] {
			if r := &p.rows[v][s]; r.tag.voids() != 0 && !r.tag.inherits && r.counts(era) {
				sum += mix(p.views[v].Name, uint64(s), r.tag.voids())
			}
		}
	}
	return sum
}

// mix is FNV-1a over its arguments.
func mix(name string, slice, step uint64) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * prime
	}
	for _, n := range [2]uint64{slice, step} {
		for range 8 {
			h = (h ^ n&0xff) * prime
			n >>= 8
		}
	}
	return max(h, 1)
}
