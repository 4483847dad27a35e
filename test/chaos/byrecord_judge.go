package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// loss is a time in which a member lost what it had in hand, or may have: others can be given that from its begin on, and the member may still work on it until
// its end.
type loss struct {
	how      string
	from, to time.Time
	ends     [few]int64 // up to where partitions had been written when it began
}

// had reports whether a member may have lost a record by the loss: it was written by then, or is one of the next, which a gateway may have acquired for the member before they are.
func (l *loss) had(r *run) bool {
	last := l.to
	if l.how == "was killed" || l.how == "left" { // it was given nothing after that
		last = l.from
	}
	return !last.Before(time.UnixMilli(r.Written)) || r.Offset < l.ends[r.Partition]+untold*processes
}

// losses are all of a member: it was killed, it left, it was frozen until its group had dropped it, its group dropped it for another cause, such as that its coordinator could not be reached, or no
// server heard of it for its session timeout. That a gateway, a broker or the coordinator dies takes nothing away from a member that reaches another one well in time. Others take it for over 4/3 of its session timeout after the
// log has announced it, which may have been a quarter before the death; so after an outage a member that is heard of again in time may be announced in the log too late, on a busy machine.
func (s *scene) losses(m *member) (list []loss) {
	s.Helper()
	never := time.Now().Add(24 * time.Hour)
	if !m.killed.IsZero() {
		list = append(list, loss{how: "was killed", from: m.killed, to: never})
	}
	if !m.left.IsZero() {
		list = append(list, loss{how: "left", from: m.left, to: never})
	}
	outside := func(how string, from time.Time) {
		to := never
		if back, ok := s.roll.back(m.id, from); ok {
			to = back.Add(time.Second) // until it knows
		}
		list = append(list, loss{how: how, from: from, to: to})
	}
	for _, f := range m.freezes {
		outside("was frozen", f.from)
	}
	end := m.killed
	if end.IsZero() {
		end = m.left
	}
	for _, seen := range s.roll.absences(m.id) {
		if end.IsZero() || seen.Before(end) {
			outside("was dropped by its group", seen)
		}
	}
	for _, o := range m.long(s.started, s.byRecord/12) {
		list = append(list, loss{how: "may have been announced too late after an outage", from: o.from.Add(s.byRecord * 13 / 12), to: o.to.Add(s.byRecord)})
	}
	return append(list, m.silences(s, s.byRecord)...)
}

// judgeByRecord judges what was given out more than once to members that share by record. It holds:
//
//   - What a member has is given to another one only when it has lost it (losses). Of two runs of one record the lower attempt had it first.
//   - What a member that leaves has done is done, where nothing hinders it to commit that, which is in calm scenes.
//   - What is committed is not given out again.
//   - Each time that a record is given out counts, and nothing else does: no two runs of it are the same attempt, and the attempts before one are not more than the losses that all members
//     had since it was written, or was about to be: gateways acquire the next offsets ahead. (Not counted is what was done where the commit that says so could not be stored, see DESIGN.md.) So a first delivery is attempt 1 where nobody lost anything; an answer that a gateway or a broker took with it does not count, unless its member lost what it had, too.
//   - No more records change hands than members can have in hand when they lose it.
//
// The ledger judges the rest: nothing is lost, and the stable offset is nowhere above what is not done.
func (s *scene) judgeByRecord() {
	s.Helper()
	lost, all, allowed := map[*member][]loss{}, []loss(nil), 0
	records := map[[2]int64][]*run{}
	for _, m := range append(slices.Clone(s.past), s.members...) {
		lost[m] = s.losses(m)
		all = append(all, lost[m]...)
		allowed += m.hands * len(lost[m])
		for _, r := range m.runs {
			at := [2]int64{int64(r.Partition), r.Offset}
			records[at] = append(records[at], r)
		}
	}
	ended(all, records)
	bad := map[string]int{}
	wrong := func(what string, runs ...*run) {
		s.Helper()
		if bad[what]++; bad[what] > 3 {
			return
		}
		text := ""
		for _, r := range runs {
			text += fmt.Sprintf("\n  %s, attempt %d from %v to %v, offset %d of partition %d; %s", r.Member, r.Attempt, r.begin(), time.Unix(0, r.End), r.Offset, r.Partition, r.Err)
			for _, l := range lost[r.of] {
				text += fmt.Sprintf("\n    it %s: %v to %v", l.how, l.from, l.to)
			}
		}
		s.Errorf("%s:%s", what, text)
	}
	again, changed := 0, 0
	for _, runs := range records {
		slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.Start, b.Start) })
		again += len(runs) - 1
		changed += slices.MaxFunc(runs, func(a, b *run) int { return cmp.Compare(a.Attempt, b.Attempt) }).Attempt - 1
		for i, r := range runs {
			if n := before(all, r); r.Attempt > 1+n {
				wrong(fmt.Sprintf("attempt of a record after fewer losses (%d)", n), r)
			}
			if i > 0 {
				s.judgePair(runs[i-1], r, lost, wrong)
			}
		}
	}
	for what, n := range bad {
		s.Errorf("%d times: %s", n, what)
	}
	if changed > allowed {
		s.Errorf("%d records changed hands, which is more than the %d that members can have had in hand when they lost it", changed, allowed)
	}
	s.say("of %d records %d were handled again, %d were given out again, at most %d could; %d losses", len(records), again, changed, allowed, len(all))
}

// before counts the losses by which a record can have been given out again before a run of it.
func before(all []loss, r *run) (n int) {
	for i := range all {
		if l := &all[i]; !l.from.After(r.begin()) && l.had(r) {
			n++
		}
	}
	return n
}

// ended finds up to where partitions had been written when losses began.
func ended(all []loss, records map[[2]int64][]*run) {
	for i := range all {
		for at, runs := range records {
			if !time.UnixMilli(runs[0].Written).After(all[i].from) {
				all[i].ends[at[0]] = max(all[i].ends[at[0]], at[1]+1)
			}
		}
	}
}

// judgePair judges two runs of a record, of which one began after the other.
func (s *scene) judgePair(first, second *run, lost map[*member][]loss, wrong func(string, ...*run)) {
	s.Helper()
	if second.Attempt <= first.Attempt && !first.of.unstored(first) {
		if first.Attempt == second.Attempt {
			wrong("a record was given out twice with the same attempt", first, second)
		}
		first, second = second, first
	}
	losses := lost[first.of]
	i := slices.IndexFunc(losses, func(l loss) bool { return !l.from.After(second.begin()) && !l.to.Before(first.begin()) })
	if i < 0 {
		wrong("a record was given to another while the one who had it was alive, in its group and in time", first, second)
		return
	}
	done := time.Unix(0, first.End)
	if first.End == 0 || first.Err != "" {
		return
	}
	if s.calm && losses[i].how == "left" {
		wrong("a member left in order, and what it had done was given out again", first, second)
	}
	if c, ok := first.of.covers(first.Partition, done); ok && c.ended.Before(losses[i].from) {
		wrong(fmt.Sprintf("a record was given out again after it was committed, from %v to %v", c.began, c.ended), first, second)
	}
}

// unstored reports whether a member had done a record and said so in a commit that was not stored, or was killed meanwhile, while a broker was dead. That may have taken its handout with it.
func (m *member) unstored(r *run) bool {
	done := time.Unix(0, r.End)
	if r.End == 0 || r.Err != "" {
		return false
	}
	for _, c := range m.commits {
		if c.failed && c.partition == r.Partition && c.ended.After(done) && c.began.Before(done.Add(time.Second)) {
			return true
		}
	}
	return !m.killed.IsZero() && m.killed.Before(done.Add(unanswered)) && slices.ContainsFunc(m.long(done, 0), func(o outage) bool {
		return o.gateway == "" && o.from.Before(m.killed)
	})
}

// unanswered is how long a commit is tried.
const unanswered = 6 * time.Second

// covers finds the commit of a partition that has what a member had done at a time. Commits come one after the other, and what is done waits for less than a second: so the first that begins then may leave
// it out, and the second one has it, unless one failed.
func (m *member) covers(partition int32, done time.Time) (commit, bool) {
	n := 0
	for _, c := range m.commits {
		switch {
		case c.partition != partition || c.ended.Before(done):
		case c.failed:
			return commit{}, false
		case c.began.After(done.Add(time.Second)):
			if n++; n == 2 {
				return c, true
			}
		}
	}
	return commit{}, false
}
