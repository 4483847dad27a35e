package executor

import (
	"slices"

	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
)

// Outputs is what the run of a record brought (Task.Bring). It is part of the commit which says that the record is done, so that whoever commits can write both in
// one transaction. When such a commit fails it comes again with the next one, and the record does not run again; when the record's key range goes
// before, it is forgotten, and whoever gets the key range runs the record.
type Outputs struct {
	Offset   int64  // of the record
	Position uint32 // of it, on the key axis
	Data     any

	size int64
	sent bool // in the commit under way
}

// outputShare is the part of Config.MaxBytes at which outputs do not wait for the commit interval.
const outputShare = 16

// Bring sets what the run brings, if it succeeds, and how many bytes that takes. It belongs to the one who runs the task, as Host.
func (t *Task[R]) Bring(data any, size int) { t.outputs, t.outputSize = data, int64(size) }

// hold takes over what a run that succeeded has brought, before it counts as done.
func (m *Machine[R]) hold(t *Task[R], data any, size int64) {
	if data == nil {
		return
	}
	h := t.hold
	h.outputs = append(h.outputs, Outputs{Offset: t.offset, Position: m.position(t), Data: data, size: size})
	h.brought += size
	h.p.bytes += size
	m.bytes += size
}

// heavy reports whether what was brought since the last commit is too much to wait for the next one.
func (m *Machine[R]) heavy(h *holding[R]) bool { return h.brought >= m.cfg.MaxBytes/outputShare }

// ship returns the outputs of h that belong to a batch, in the order in which the runs ended.
func (m *Machine[R]) ship(h *holding[R], b done.Batch) (list []Outputs) {
	h.brought = 0
	for i := range h.outputs {
		o := &h.outputs[i]
		if o.Offset >= b.Watermark && (m.cfg.WatermarkOnly || !contains(b.Ranges, o.Offset)) {
			continue
		}
		o.sent = true
		list = append(list, *o)
	}
	return list
}

// contains reports whether an offset is in one of sorted ranges.
func contains(ranges []offsets.Range, offset int64) bool {
	i, ok := slices.BinarySearchFunc(ranges, offset, func(r offsets.Range, o int64) int {
		switch {
		case r.Last < o:
			return -1
		case r.First > o:
			return 1
		}
		return 0
	})
	return ok && ranges[i].Contains(offset)
}

// shipped says how the commit of h that was under way ended: what it had is written, or comes again.
func (m *Machine[R]) shipped(h *holding[R], ok bool) {
	if ok {
		m.forget(h, func(o Outputs) bool { return o.sent })
		return
	}
	for i := range h.outputs {
		h.outputs[i].sent = false
	}
}

// forget takes outputs out of memory.
func (m *Machine[R]) forget(h *holding[R], which func(Outputs) bool) {
	p := h.p
	h.outputs = slices.DeleteFunc(h.outputs, func(o Outputs) bool {
		if !which(o) {
			return false
		}
		m.bytes -= o.size
		p.bytes -= o.size
		return true
	})
	if len(h.outputs) == 0 {
		h.outputs = nil
	}
	if p.paused && m.used() <= m.lookBelow {
		m.look = true
	}
}

// splitOutputs gives s, which was a part of h, the outputs of its key ranges.
func (h *holding[R]) splitOutputs(s *holding[R]) {
	for _, o := range h.outputs {
		if s.keys.Contains(o.Position) {
			s.outputs = append(s.outputs, o)
		}
	}
	h.outputs = slices.DeleteFunc(h.outputs, func(o Outputs) bool { return s.keys.Contains(o.Position) })
	s.brought = h.brought
}
