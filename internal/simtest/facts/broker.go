package facts

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// key names a stored row.
type key struct {
	view  int // -1: the source row
	slice int32
}

var source = key{-1, 0}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.view, o.view), cmp.Compare(k.slice, o.slice))
}

// broker is the group coordinator: it fences commits by generation, and keeps the group's rows.
type broker struct {
	generation int
	live       map[int]bool // members of the generation
	rows       map[key]progress.Row
	written    map[key]int64 // the place of each row in __consumer_offsets
	seq        int64
}

// put stores a decided row.
func (b *broker) put(k key, row progress.Row) {
	b.seq++
	b.rows[k], b.written[k] = row, b.seq
}

func (b *broker) remove(k key) {
	delete(b.rows, k)
	delete(b.written, k)
}

// picture is an OffsetFetch of all rows, for one base. With stable, those that are pending are marked.
func (w *world) picture(base int, stable bool) *progress.Picture {
	p := progress.NewPicture(w.byBase[base])
	get := func(k key) progress.Row {
		row, ok := w.broker.rows[k]
		if !ok {
			row = progress.NoRow
		}
		row.Pending = stable && w.pending(k)
		return row
	}
	p.SetSource(get(source))
	for v, view := range w.views {
		for s := range view.K {
			if row := get(key{v, s}); w.bases[v] == base {
				p.SetView(w.local[v], s, row)
			} else {
				p.SetApart(row)
			}
		}
	}
	return p
}

func text(r progress.Row) string {
	if r.Metadata == nil {
		return ""
	}
	return *r.Metadata
}

var (
	stepTag = regexp.MustCompile(`tandem:1:[0-9]+[.]`)
	eraTag  = regexp.MustCompile(`tandem:1:([0-9]+)`)
)

// eraOf is the era that a row names, "" if none.
func eraOf(r progress.Row) string {
	s := text(r)
	if m := eraTag.FindStringSubmatch(s[max(0, strings.LastIndex(s, "tandem:1:")):]); m != nil { // a tool may have written one before it
		return m[1]
	}
	return ""
}

// era is the era that the source row names; false: it is not ours, or there is none.
func (w *world) era() (string, bool) {
	row, ok := w.broker.rows[source]
	if !ok || !progress.SourceIsOurs(row.Metadata, row.Offset) {
		return "", false
	}
	return eraOf(row), true
}

// stepped reports whether the current era has rewinds, or rows of tools: then not all that was committed counts.
func (w *world) stepped() bool {
	era, ours := w.era()
	for k, row := range w.broker.rows {
		if k.view >= 0 && (progress.ClientText(row.Metadata, row.Offset) == row.Metadata || !ours || eraOf(row) == era && stepTag.MatchString(text(row))) {
			return true
		}
	}
	return false
}

// untagged reports whether there are rows that a tool wrote on the broker.
func (w *world) untagged() bool {
	for k, row := range w.broker.rows {
		if k.view >= 0 && progress.ClientText(row.Metadata, row.Offset) == row.Metadata {
			return true
		}
	}
	return false
}
