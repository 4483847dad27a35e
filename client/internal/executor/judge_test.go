package executor

import (
	"bytes"
	"slices"
)

// judgeBegin looks at a run before it begins.
func (w *world) judgeBegin(t *Task[*rec]) {
	f := w.byID[t.Record.id()]
	if t.TP() != f.tp || t.Offset() != f.offset || !bytes.Equal(t.Record.key, f.key) {
		w.t.Fatalf("task %v/%d has record %v", t.TP(), t.Offset(), t.Record)
	}
	if f.running {
		w.t.Fatalf("%v runs twice at once", f.rec)
	}
	owner := w.holderOf(f.rec)
	orphan := t.Host != owner // handed out before it was lost, begun after
	if f.done != 0 && f.done == owner && !orphan {
		w.t.Fatalf("%v is done, and was not revoked since", f.rec)
	}
	if f.committed && !orphan {
		w.t.Fatalf("%v is committed", f.rec)
	}
	for _, o := range w.fates(f.tp) {
		if o == f || !w.ordered(f, o) {
			continue
		}
		if o.running {
			w.t.Fatalf("%v begins while %v runs", f.rec, o.rec)
		}
		if o.offset < f.offset && o.done == 0 && !o.gone && !o.committed && !orphan && w.holderOf(o.rec) == owner && w.revoking(o) == w.revoking(f) {
			w.t.Fatalf("%v begins before %v is done", f.rec, o.rec)
		}
	}
	f.running = true
	if orphan {
		return
	}
	limit := w.m.cfg.MaxAttempts
	switch {
	case t.Kind() == KindDeadLetter:
		if w.m.cfg.Last != DeadLetter || limit == 0 || f.failed < limit {
			w.t.Fatalf("dead letter of %v after %d attempts", f.rec, f.failed)
		}
	case limit > 0 && f.failed >= limit:
		w.t.Fatalf("%v runs after %d attempts", f.rec, f.failed)
	case t.Attempt() != f.failed+1:
		w.t.Fatalf("%v has attempt %d after %d failed ones", f.rec, t.Attempt(), f.failed)
	case w.now < f.retryAt:
		w.t.Fatalf("%v runs %d ns too early", f.rec, f.retryAt-w.now)
	}
}

// ordered reports whether a and b may not overtake each other.
func (w *world) ordered(a, b *fate) bool {
	switch w.m.cfg.Order {
	case ByPartition:
		return true
	case ByKey:
		return a.key != nil && b.key != nil && bytes.Equal(a.key, b.key)
	}
	return false
}

func (w *world) judgeEnd(t *Task[*rec], res Result) {
	f := w.byID[t.Record.id()]
	f.running = false
	owner := t.Host.(int)
	rv := w.revoking(f)
	if rv != nil && res.Err != nil {
		rv.held = true
	}
	switch lost := owner != w.ownerOf(f.rec) && rv == nil; {
	case res.Err == nil && t.Kind() == KindDeadLetter:
		f.letters++
		fallthrough
	case res.Err == nil:
		if f.done == 0 || !lost {
			f.done = owner
		}
		if !lost {
			f.brought, _ = t.outputs.(*brought)
		}
	case t.Kind() == KindHandle && !lost:
		f.failed++
		f.retryAt = 0
		if limit := w.m.cfg.MaxAttempts; res.Delay > 0 && (limit == 0 || f.failed < limit) {
			f.retryAt = w.now + res.Delay
		}
	}
}

// revocationOf is the revocation of the record that is not over, if there is one: until then its runs still count.
func (w *world) revocationOf(f *fate) (found *revoked, of owned) {
	for _, r := range w.revokes {
		for _, o := range r.had {
			if o.tp == f.tp && o.keys.Contains(f.position()) && (found == nil || r.deadline < found.deadline) {
				found, of = r, o
			}
		}
	}
	return found, of
}

// planCatchUp writes down what is to be done before a revocation is over, where only watermarks are durable.
func (w *world) planCatchUp(rv *revoked) {
	rv.held = w.waits || w.m.shed > 0
	for _, o := range rv.had {
		rv.held = rv.held || o.guard
		for _, f := range w.fates(o.tp) {
			if o.keys.Contains(f.position()) && f.done != o.id && !f.committed {
				rv.held = rv.held || f.failed > 0 || w.retries[o.tp][f.offset].Attempts > 0
			}
			if o.keys.Contains(f.position()) && f.done == o.id {
				rv.top = max(rv.top, f.offset)
			}
		}
		for _, k := range w.workers {
			for _, t := range k.tasks[k.ran:] {
				if t.TP() == o.tp && o.keys.Contains(t.Record.position()) {
					rv.top = max(rv.top, t.Offset())
				}
			}
		}
	}
}

// judgeCatchUp looks at a task that was handed out although its key range is revoked.
func (w *world) judgeCatchUp(t *Task[*rec]) {
	rv := w.revoking(w.byID[t.Record.id()])
	if rv == nil || !w.cfg.WatermarkOnly || w.now >= rv.latest || t.Offset() >= rv.top {
		w.t.Fatalf("took %v, which is revoked: %+v", t.Record, rv)
	}
}

// revoking is the revocation of the record that is not over; nil: there is none.
func (w *world) revoking(f *fate) *revoked {
	rv, _ := w.revocationOf(f)
	return rv
}

// judgeReleased looks at what a revocation left behind of an assignment: what is done is committed. With watermarks alone that is so if nothing was in the way.
func (w *world) judgeReleased(r Released, rv *revoked, o owned) {
	cutShort := w.cfg.WatermarkOnly && (rv.held || w.now >= rv.deadline)
	for _, f := range w.fates(o.tp) {
		ran := slices.ContainsFunc(r.Running, func(i Info) bool { return i.Offset == f.offset }) // it ended since
		if f.done == o.id && !f.committed && !cutShort && !r.Uncommitted && !ran && o.keys.Contains(f.position()) {
			w.t.Fatalf("released with %v done and not committed", f.rec)
		}
	}
}

func (w *world) judgeSkip(f *fate) {
	if w.m.cfg.Last != Skip || f.failed < w.m.cfg.MaxAttempts {
		w.t.Fatalf("%v was skipped after %d attempts", f.rec, f.failed)
	}
	f.done, f.brought = max(w.ownerOf(f.rec), 1), nil
}

// judgeCommit looks at a commit when it is sent.
func (w *world) judgeCommit(c Commit) {
	if err := c.Keys.Validate(); err != nil || len(c.Keys) == 0 {
		w.t.Fatalf("commit of key ranges %v: %v", c.Keys, err)
	}
	if len(c.Ranges) > w.m.cfg.MaxRanges {
		w.t.Fatalf("%d ranges", len(c.Ranges))
	}
	last := c.Watermark
	for i, r := range c.Ranges {
		if r.Last < r.First || i > 0 && r.First <= last+1 || i == 0 && r.First <= last {
			w.t.Fatalf("ranges %v, watermark %d", c.Ranges, c.Watermark)
		}
		last = r.Last
	}
	if last > w.ends[c.TP] {
		w.t.Fatalf("commit up to %d of %d", last, w.ends[c.TP])
	}
	for _, f := range w.fates(c.TP) {
		if f.done != 0 || f.committed || f.gone || !c.Keys.Contains(f.position()) {
			continue
		}
		if f.offset < c.Watermark {
			w.t.Fatalf("watermark %d is above %v, which is not done", c.Watermark, f.rec)
		}
		for _, r := range c.Ranges {
			if r.Contains(f.offset) {
				w.t.Fatalf("%v holds %v, which is not done", r, f.rec)
			}
		}
	}
	w.judgeOutputs(c)
	if !slices.IsSortedFunc(c.Retries, func(a, b Retry) int { return int(a.Offset - b.Offset) }) {
		w.t.Fatalf("retries %v", c.Retries)
	}
}

// judgeOutputs looks at what goes with a commit: it is of records that the commit says are done, the last that their runs brought, never again what was written, and
// in order.
func (w *world) judgeOutputs(c Commit) {
	for i, o := range c.Outputs {
		b := o.Data.(*brought)
		f := b.f
		if o.Offset != f.offset || o.Position != f.position() || f.tp != c.TP || !c.Keys.Contains(o.Position) || !w.covers(c, f.offset) {
			w.t.Fatalf("%+v goes with commit %+v, it is of %v", o, c, f.rec)
		}
		if b.written || b != f.brought {
			w.t.Fatalf("what %v brought goes with commit %d; written %v, of its last run %v", f.rec, c.ID, b.written, b == f.brought)
		}
		for _, before := range c.Outputs[:i] {
			if before.Offset == o.Offset || before.Offset > o.Offset && w.ordered(f, before.Data.(*brought).f) {
				w.t.Fatalf("the outputs of %d and then %d go with commit %d", before.Offset, o.Offset, c.ID)
			}
		}
	}
}

// judgeCommitted looks at a record whose commit became durable: what it brought went with it.
func (w *world) judgeCommitted(c Commit, f *fate) {
	if f.committed || f.gone || f.brought == nil || f.brought.written {
		return
	}
	if !slices.ContainsFunc(c.Outputs, func(o Outputs) bool { return o.Data == f.brought }) {
		w.t.Fatalf("%v is committed without what it brought", f.rec)
	}
}
