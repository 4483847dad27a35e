package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/test/harness"
)

// member is a client program of the kit in its own process, of which the scene's group has several.
type member struct {
	*harness.Process
	kind      string
	bootstrap string
	id        string    // its client id
	name      string    // in the ledger; "" until it printed something
	read      int64     // bytes of its output that are taken
	printed   int64     // bytes of its output when it was last seen to print something; only of members that can hang
	active    time.Time // when that was
	events    []event
	freezes   []freeze
	killed    time.Time
	left      time.Time // when it was told to leave
	slot      int       // lowest that no other member has; of Tandem's own client in transactions only
	commits   []commit  // Tandem's own client only
	slow      bool      // of members that share by record, as what follows
	hands     int       // records that it can have in hand
	runs      []*run
	begun     map[begun]*run
}

// commit is one by which a member has committed what it had done of key ranges of a partition before. It is known when it has ended.
type commit struct {
	partition    int32
	keys         keyrange.Set
	began, ended time.Time
	failed       bool
}

// event is what a member prints of its partitions: "assigned", "revoked" or "lost".
type event struct {
	name string
	at   time.Time
}

// freeze is a time in which a member stood still and its group dropped it.
type freeze struct{ from, to time.Time }

// line is what the kit's consumers print.
type line struct {
	Event     string
	Client    string
	Member    int64
	Partition int32
	Keys      keyrange.Set
	Offset    int64
	Value     string
	T         int64
	Start     int64 `json:"t_start"`
	End       int64 `json:"t_end"`
}

// collect takes the whole lines that the member has printed since the last call. Deliveries go to the ledger, unless it is nil.
func (m *member) collect(t testing.TB, l *harness.Ledger) {
	t.Helper()
	for _, text := range m.fresh(t) {
		var r line
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatalf("%s printed %q: %v", m.Name, text, err)
		}
		m.name = fmt.Sprintf("%s-%d", m.kind, r.Member)
		switch {
		case r.Event == "committed":
			m.commits = append(m.commits, commit{partition: r.Partition, keys: r.Keys, began: time.UnixMilli(r.Start), ended: time.UnixMilli(r.T)})
		case r.Event != "":
			m.events = append(m.events, event{r.Event, time.UnixMilli(r.T)})
		case l != nil:
			l.Delivered(harness.Delivery{Member: m.name, Partition: r.Partition, Offset: r.Offset, N: number(r.Value),
				Start: time.UnixMilli(r.Start), End: time.UnixMilli(r.End)})
		}
	}
}

// number reads N out of a record's value, or out of "COUNT|VALUE"; -1 when there is none.
func number(value string) int64 {
	if i := strings.IndexByte(value, '|'); i >= 0 {
		value = value[i+1:]
	}
	v := struct{ N int64 }{-1}
	if json.Unmarshal([]byte(value), &v) != nil {
		return -1
	}
	return v.N
}

// spans are the times in which the member was outside of its group, or may have been: frozen ones, and from the last moment at which the
// cluster had it as a member (absences) to the next assignment after the one that it lost.
func (m *member) spans(absences []time.Time) []harness.Span {
	var out []harness.Span
	for _, f := range m.freezes {
		out = append(out, harness.Span{From: f.from, To: m.back(f.to), Surely: true})
	}
	for _, a := range absences {
		if !slices.ContainsFunc(out, func(s harness.Span) bool { return !a.Before(s.From) && !a.After(s.To) }) {
			out = append(out, harness.Span{From: a, To: m.back(a)})
		}
	}
	return out
}

// back is when the member's next life in the group began.
func (m *member) back(from time.Time) time.Time {
	knows := m.kind == "kafkajs" // joins again without a word
	for _, e := range m.events {
		switch {
		case e.at.Before(from):
		case e.name != "assigned":
			knows = true
		case knows:
			return e.at
		}
	}
	return from.Add(24 * time.Hour)
}
