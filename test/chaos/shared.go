package chaos

import (
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/test/harness"
)

// inProcess is the kind of members that carry the gateway in their process.
const inProcess = "tandem-in-process"

// sharers are the members of a group that shares partitions by keys: Tandem's own client in the ways in which it is used.
func sharers(seed uint64) []string {
	return [][]string{{"tandem"}, {"tandem", "tandem-poll"}, {"tandem", inProcess}, {"tandem", "tandem-poll", inProcess}}[seed%4]
}

// interval is how long what is done waits for its commit, and lag what that may take on a busy machine while nothing is wrong with the cluster.
const interval, lag = 200 * time.Millisecond, 3 * time.Second

// again judges what was handled twice: what a member has committed never is, whatever was killed. Where only members are killed, what comes
// again was handled within a commit's time of their death.
func (s *scene) again() {
	s.Helper()
	members := map[string]*member{}
	for _, m := range append(slices.Clone(s.past), s.members...) {
		members[m.name] = m
	}
	wrong, handed := 0, 0
	var longest time.Duration
	s.ledger.Again(func(p harness.Produced, first, again harness.Delivery) {
		m := members[first.Member]
		end := m.end(first.End)
		if c, ok := m.committed(p, first.End, end); ok && again.Start.After(c.ended) {
			if wrong++; wrong <= 3 {
				s.Errorf("committed and handled again: %+v, in a commit from %v to %v, then %+v", first, c.began, c.ended, again)
			}
		}
		if end.IsZero() {
			if handed++; s.calm && handed <= 3 {
				s.Errorf("%s handed its keys over, and a record is handled again: %+v, then %+v", m.name, first, again)
			}
			return
		}
		longest = max(longest, end.Sub(first.End))
	})
	if wrong > 0 {
		s.Errorf("%d records were handled again after they were committed", wrong)
	}
	if s.calm && longest > interval+lag {
		s.Errorf("a record was done %v before its member was killed, and was not committed", longest)
	}
	s.say("what came again was done at most %v before its member was killed or dropped; %d records were handed over and came again", longest, handed)
}

// end is when the member was killed or dropped after a time, before which it did not give its keys up in order; zero: it did.
func (m *member) end(after time.Time) time.Time {
	for _, e := range m.events {
		if e.at.Before(after) {
			continue
		}
		switch e.name {
		case "lost":
			return e.at
		case "revoked":
			return time.Time{}
		}
	}
	return m.killed
}

// committed finds the commit that covers a record that was done at a time, before the member was killed or dropped. A key range has one commit on its
// way at a time, so the first that begins afterwards may leave some out, and the next one has them.
func (m *member) committed(p harness.Produced, done, end time.Time) (commit, bool) {
	n, position := 0, keyrange.Position(p.Key, few)
	for _, c := range m.commits {
		if c.partition == p.Partition && c.keys.Contains(position) && c.began.After(done.Add(50*time.Millisecond)) && (end.IsZero() || c.ended.Before(end)) {
			if n++; n == 2 {
				return c, true
			}
		}
	}
	return commit{}, false
}
