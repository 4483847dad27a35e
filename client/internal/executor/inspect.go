package executor

import (
	"cmp"
	"slices"
)

// Stats is what a Machine holds now.
type Stats struct {
	Records, Shed, Ready, Delayed, Running int
	Bytes                                  int64
	Paused                                 int // partitions
}

// Stats returns what the machine holds.
func (m *Machine[R]) Stats() Stats {
	return Stats{Records: m.records, Bytes: m.bytes, Shed: m.shed, Ready: m.ready, Delayed: m.delayed, Running: len(m.running), Paused: len(m.paused)}
}

// Positions are the holdings of a partition and where they are to be fetched from.
func (m *Machine[R]) Positions(tp TP) (list []Position) {
	if p := m.parts[tp]; p != nil {
		for _, h := range p.holdings {
			if h.stage == active {
				list = append(list, Position{Keys: h.keys, Next: h.track.Next()})
			}
		}
	}
	return list
}

// Retries are the records of a partition that were attempted and are not done, by holding and offset.
func (m *Machine[R]) Retries(tp TP) (list []Retry) {
	if p := m.parts[tp]; p != nil {
		for _, h := range p.holdings {
			list = append(list, h.list()...)
		}
	}
	return list
}

// Slow are up to n records that run, wait for their next attempt, or stopped the machine: those first that do so longest.
func (m *Machine[R]) Slow(n int) (list []Info) {
	m.each(func(t *Task[R]) {
		if t.state == handed || t.state == delayed || t.state == parked {
			list = append(list, m.info(t))
		}
	})
	slices.SortFunc(list, func(a, b Info) int { return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Offset, b.Offset)) })
	return list[:min(n, len(list))]
}
