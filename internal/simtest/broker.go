package simtest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// key names a stored row.
type key struct {
	part  int
	view  int // -1: the source row
	slice int32
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.part, o.part), cmp.Compare(k.view, o.view), cmp.Compare(k.slice, o.slice))
}

type stored struct {
	row progress.Row
	seq int64 // position in __consumer_offsets
}

// broker is the group coordinator: it fences commits by generation, and keeps rows and the pending ones of transactions.
type broker struct {
	generation int
	live       map[int]bool // members of the generation
	rows       map[key]stored
	txns       map[int]*txn // undecided, by id
	seq        int64
	lowered    func(k key, offset int64) // a view row has gone back
	byTime     bool                      // a transaction's rows become the last ones when it is decided, not when they were written (kfake)
}

// request is one OffsetCommit or TxnOffsetCommit on its way.
type request struct {
	member, generation int // generation -1: a tool
	txn                *txn
	writes             map[int][]progress.Write // by part
	sent               int64
	answer             func(ok, known bool)
	accepted           func(*request) // the broker has it
	late               bool           // later ones of the member may have overtaken it
	refused            map[key]bool   // rows that the cluster refuses: no rights, text too long
	corrects           *request       // of the gateway: the one whose source row this one writes anew
}

// commit applies a request if Kafka would.
func (b *broker) commit(r *request) bool {
	if r.generation != b.generation || !b.live[r.member] {
		return false
	}
	if r.txn != nil && b.txns[r.txn.id] != r.txn {
		return false // fenced: that transaction has ended
	}
	for part, ws := range r.writes {
		for _, w := range ws {
			k := key{part, w.View, w.Slice}
			if r.refused[k] {
				continue
			}
			b.seq++
			row := stored{progress.Row{Offset: w.Offset, LeaderEpoch: w.LeaderEpoch, Metadata: w.Metadata}, b.seq}
			if r.txn != nil {
				r.txn.rows[k], r.txn.sawRows = row, true
			} else {
				b.put(k, row)
			}
		}
	}
	return true
}

// put stores a decided row.
func (b *broker) put(k key, row stored) {
	if old, ok := b.rows[k]; ok && k.view >= 0 && row.row.Offset < old.row.Offset {
		b.lowered(k, row.row.Offset)
	}
	b.rows[k] = row
}

func (b *broker) decide(t *txn, commit bool) {
	delete(b.txns, t.id)
	if !commit {
		return
	}
	for _, k := range slices.SortedFunc(maps.Keys(t.rows), key.compare) { // a history follows from its seed alone
		row := t.rows[k]
		if old, ok := b.rows[k]; ok && old.seq > row.seq && !b.byTime {
			continue
		}
		if b.byTime {
			b.seq++
			row.seq = b.seq
		}
		b.put(k, row)
	}
}

func (b *broker) pending(k key) bool {
	for _, t := range b.txns {
		if _, ok := t.rows[k]; ok {
			return true
		}
	}
	return false
}

// pic names a picture: views of different bases have one each.
type pic struct{ part, base int }

// fetch is an OffsetFetch of decided rows; with stable, those that are pending are marked.
func (w *world) fetch(pc pic, stable bool) *progress.Picture {
	b := w.broker
	p := progress.NewPicture(w.byBase[pc.base])
	get := func(k key) progress.Row {
		row := progress.NoRow
		if s, ok := b.rows[k]; ok {
			row = s.row
		}
		row.Pending = stable && b.pending(k)
		return row
	}
	p.SetSource(get(key{pc.part, -1, 0}))
	for v, view := range w.views {
		for s := range view.K {
			if row := get(key{pc.part, v, s}); w.bases[v] == pc.base {
				p.SetView(w.local[v], s, row)
			} else {
				p.SetApart(row)
			}
		}
	}
	return p
}

// undecided lists the transactions in a fixed order.
func (b *broker) undecided() []*txn {
	var ts []*txn
	for _, t := range b.txns {
		ts = append(ts, t)
	}
	slices.SortFunc(ts, func(x, y *txn) int { return x.id - y.id })
	return ts
}
