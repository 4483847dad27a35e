package assignor

import (
	"cmp"
	"slices"
)

// wholes deals whole partitions of some topics: of topics that are not shared to all their subscribers, of shared topics to those
// of their subscribers that did not opt in. It starts from the round robin's result and keeps its balance: the numbers of
// partitions that the members get of a topic, and of all the topics together, stay the same numbers, but change hands.
type wholes struct {
	p      *problem
	topics []int
	deal   [][]int // the round robin's result: by topic and partition the member, sharers included
	shared bool

	had   [][]int // by topic and partition: the member that had most of it and may have it again, or -1
	own   [][]int // by topic and member: for how many partitions it is that member
	count [][]int // by topic and member: how many it gets
	total []int   // by member: how many it gets of all the topics
	steps int     // what is left of the work allowed for improve
}

// maxSteps bounds the search for a better match of members and counts. It only bounds how sticky the result is.
const maxSteps = 20_000_000

func newWholes(p *problem, topics []int, shared bool) *wholes {
	w := &wholes{p: p, topics: topics, deal: p.roundRobin(topics), shared: shared, steps: maxSteps,
		had: make([][]int, len(p.topics)), own: make([][]int, len(p.topics)), count: make([][]int, len(p.topics)), total: make([]int, len(p.members))}
	for _, t := range topics {
		w.had[t], w.own[t], w.count[t] = make([]int, p.topics[t].partitions), make([]int, len(p.members)), make([]int, len(p.members))
		for partition, m := range w.deal[t] {
			if w.takes(m) {
				w.count[t][m]++
				w.total[m]++
			}
			had := w.hadMost(t, partition)
			if w.had[t][partition] = had; had >= 0 {
				w.own[t][had]++
			}
		}
	}
	return w
}

// takes reports whether a member gets whole partitions here.
func (w *wholes) takes(m int) bool { return !w.shared || !w.p.members[m].shares() }

func (w *wholes) mayHave(t, m int) bool {
	_, subscribed := slices.BinarySearch(w.p.topics[t].subscribers, m)
	return subscribed && w.takes(m)
}

func (w *wholes) hadMost(t, partition int) int {
	best, most := -1, uint64(0)
	for _, s := range w.p.topics[t].owned[partition] {
		if n := s.keys.Len(); n > most && w.mayHave(t, s.member) {
			best, most = s.member, n
		}
	}
	return best
}

// sticky returns who gets which partition, or -1 for those that are left to sharers.
func (w *wholes) sticky() [][]int {
	if count, total := w.complete(); count != nil {
		w.count, w.total = count, total
	} else {
		w.improve()
	}
	return w.hand()
}

// complete leaves everything where it is and deals only what nobody has, each to the member with the least. That is the answer
// in a generation in which nothing has to move; nil if the result is not as balanced as the round robin's, or nobody has anything.
func (w *wholes) complete() (count [][]int, total []int) {
	count, total = make([][]int, len(w.p.topics)), make([]int, len(w.p.members))
	if !slices.ContainsFunc(w.topics, func(t int) bool { return sum(w.own[t]) > 0 }) {
		return nil, nil
	}
	for _, t := range w.topics {
		count[t] = slices.Clone(w.own[t])
		for m, n := range count[t] {
			total[m] += n
		}
	}
	for _, t := range w.topics {
		may := w.p.topics[t].subscribers
		for missing := sum(w.count[t]) - sum(count[t]); missing > 0; missing-- {
			best := -1
			for _, m := range may {
				if w.takes(m) && (best < 0 || cmp.Or(cmp.Compare(count[t][m], count[t][best]), cmp.Compare(total[m], total[best])) < 0) {
					best = m
				}
			}
			count[t][best]++
			total[best]++
		}
		if !sameNumbers(count[t], w.count[t]) {
			return nil, nil
		}
	}
	if !sameNumbers(total, w.total) {
		return nil, nil
	}
	return count, total
}

// improve lets members exchange their counts of a topic as long as one of them can then keep more, and none less.
func (w *wholes) improve() {
	for changed := true; changed; {
		changed = false
		for _, t := range w.topics {
			for _, m := range w.p.topics[t].subscribers {
				for w.count[t][m] < w.own[t][m] && w.raise(t, m) {
					changed = true
				}
			}
		}
	}
}

// raise gives member m one partition more of topic t: from a member that has one more than m and gets foreign ones. That one
// either has one partition more in all, and now m has; or it gets one of another topic for it, where m gets foreign ones.
func (w *wholes) raise(t, m int) bool {
	for _, from := range w.p.topics[t].subscribers {
		if w.steps--; w.steps < 0 {
			return false
		}
		if w.count[t][from] != w.count[t][m]+1 || w.count[t][from] <= w.own[t][from] {
			continue
		}
		if w.total[from] == w.total[m]+1 {
			w.move(t, from, m)
			return true
		}
		for _, u := range w.topics {
			if w.steps--; w.steps < 0 {
				return false
			}
			if w.count[u][m] > w.own[u][m] && w.count[u][m] == w.count[u][from]+1 && u != t && w.mayHave(u, from) {
				w.move(t, from, m)
				w.move(u, m, from)
				return true
			}
		}
	}
	return false
}

func (w *wholes) move(t, from, to int) {
	w.count[t][from]--
	w.total[from]--
	w.count[t][to]++
	w.total[to]++
}

// hand gives each member as many partitions as it gets: first those it had, then what the round robin gave it, then any others.
// Of a shared topic, partitions that nobody had go first, so that sharers lose as little as possible.
func (w *wholes) hand() [][]int {
	owner := make([][]int, len(w.p.topics))
	for _, t := range w.topics {
		need := slices.Clone(w.count[t])
		owner[t] = make([]int, w.p.topics[t].partitions)
		var rest []int
		for partition, m := range w.had[t] {
			owner[t][partition] = -1
			if m >= 0 && need[m] > 0 {
				need[m]--
				owner[t][partition] = m
			} else {
				rest = append(rest, partition)
			}
		}
		if w.shared {
			w.byLoss(t, rest)
		}
		next := 0
		for _, partition := range rest {
			m := w.deal[t][partition]
			if need[m] == 0 {
				for next < len(need) && need[next] == 0 {
					next++
				}
				if next == len(need) {
					break
				}
				m = next
			}
			need[m]--
			owner[t][partition] = m
		}
	}
	return owner
}

// byLoss sorts partitions by how much of them sharers had, then those first that the round robin does not give to sharers.
func (w *wholes) byLoss(t int, partitions []int) {
	lost := func(partition int) (n uint64) {
		for _, s := range w.p.topics[t].owned[partition] {
			n += s.keys.Len()
		}
		return n
	}
	slices.SortStableFunc(partitions, func(a, b int) int {
		byDeal := 0
		if whole := w.takes(w.deal[t][a]); whole != w.takes(w.deal[t][b]) {
			byDeal = 1
			if whole {
				byDeal = -1
			}
		}
		return cmp.Or(cmp.Compare(lost(a), lost(b)), byDeal)
	})
}

// dealt is the round robin's own result.
func (w *wholes) dealt() [][]int {
	owner := make([][]int, len(w.p.topics))
	for _, t := range w.topics {
		owner[t] = slices.Clone(w.deal[t])
		for partition, m := range owner[t] {
			if !w.takes(m) {
				owner[t][partition] = -1
			}
		}
	}
	return owner
}

func sum(numbers []int) int {
	n := 0
	for _, v := range numbers {
		n += v
	}
	return n
}

// sameNumbers reports whether a and b hold the same numbers, in any order.
func sameNumbers(a, b []int) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
