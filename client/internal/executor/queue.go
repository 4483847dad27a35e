package executor

import (
	"cmp"
	"slices"
)

// entry is a place in a queue. It is void once its task is not what it was then: tasks leave from the middle without looking for it.
type entry[R any] struct {
	at  int64 // what the queue is ordered by
	seq int64
	t   *Task[R]
}

// ring is a queue.
type ring[R any] struct {
	buf  []entry[R] // its length is a power of two
	head int
	n    int
	last int64 // seq of the newest
}

func (r *ring[R]) push(e entry[R]) {
	if r.n == len(r.buf) {
		buf := make([]entry[R], max(64, 2*len(r.buf)))
		for i := range r.n {
			buf[i] = r.buf[(r.head+i)&(len(r.buf)-1)]
		}
		r.buf, r.head = buf, 0
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = e
	r.n++
	r.last = e.seq
}

func (r *ring[R]) front() *entry[R] { return &r.buf[r.head] }

func (r *ring[R]) pop() {
	r.buf[r.head] = entry[R]{}
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
}

// heap has the entry with the lowest at, then seq, in front.
type heap[R any] []entry[R]

func (h heap[R]) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h *heap[R]) push(e entry[R]) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s.less(i, parent) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

func (h *heap[R]) pop() {
	s := *h
	n := len(s) - 1
	s[0] = s[n]
	s[n] = entry[R]{}
	s = s[:n]
	*h = s
	for i := 0; ; {
		child := 2*i + 1
		if child >= n {
			return
		}
		if child+1 < n && s.less(child+1, child) {
			child++
		}
		if !s.less(child, i) {
			return
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}

// makeReady queues t in the order of arrival.
func (m *Machine[R]) makeReady(t *Task[R]) {
	t.state = ready
	m.ready++
	e := entry[R]{t.seq, t.seq, t}
	if m.fresh.n == 0 || t.seq > m.fresh.last {
		m.fresh.push(e) // what just arrived needs no sorting
	} else {
		m.old.push(e)
	}
}

// popReady takes the ready task that arrived first; nil if there is none.
func (m *Machine[R]) popReady() *Task[R] {
	for m.fresh.n > 0 || len(m.old) > 0 {
		var e entry[R]
		if len(m.old) == 0 || m.fresh.n > 0 && m.fresh.front().seq < m.old[0].seq {
			e = *m.fresh.front()
			m.fresh.pop()
		} else {
			e = m.old[0]
			m.old.pop()
		}
		if e.t.seq == e.seq && e.t.state == ready {
			m.ready--
			return e.t
		}
	}
	return nil
}

// delay queues t until nextAt.
func (m *Machine[R]) delay(t *Task[R]) {
	t.state = delayed
	m.delayed++
	m.late.push(entry[R]{t.nextAt, t.seq, t})
	if len(m.late) > 2*m.delayed+64 { // key ranges that come and go leave void entries for a time far away
		m.late = slices.DeleteFunc(m.late, entry[R].isNotDelayed)
		slices.SortFunc(m.late, func(a, b entry[R]) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
	}
}

func (e entry[R]) isNotDelayed() bool {
	return e.t.seq != e.seq || e.t.state != delayed || e.t.nextAt != e.at
}

// promote arms the delayed tasks whose time has come.
func (m *Machine[R]) promote(now int64) {
	for len(m.late) > 0 {
		e := m.late[0]
		void := e.isNotDelayed()
		if !void && e.at > now {
			return
		}
		m.late.pop()
		if !void {
			m.delayed--
			m.rearm(e.t, now)
		}
	}
}
