package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// member is a client program of the kit in its own process, of which the scene's group has several.
type member struct {
	*harness.Process
	kind      string
	bootstrap string
	name      string // in the ledger; "" until it printed something
	read      int64  // bytes of its output that are taken
	events    []event
	freezes   []freeze
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
	Offset    int64
	Value     string
	T         int64
	Start     int64 `json:"t_start"`
	End       int64 `json:"t_end"`
}

// collect takes the whole lines that the member has printed since the last call. Deliveries go to the ledger, unless it is nil.
func (m *member) collect(t testing.TB, l *harness.Ledger) {
	t.Helper()
	f, err := os.Open(m.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, m.read, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	m.read += int64(len(b))
	for _, text := range bytes.Split(bytes.TrimSpace(b), []byte("\n")) {
		if len(text) == 0 {
			continue
		}
		var r line
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatalf("%s printed %q: %v", m.Name, text, err)
		}
		m.name = fmt.Sprintf("%s-%d", m.kind, r.Member)
		switch {
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

// tellsLost says that a client prints "lost" whenever the group has dropped it; the others print "revoked" then too, or nothing.
func (m *member) tellsLost() bool {
	return m.kind == "franz-go" || m.kind == "confluent-kafka" || m.kind == "java"
}

// doubt is how long before it prints "lost" a member may have been outside of its group without knowing: an outage, its session, and the
// longest pause of a client between two attempts to connect.
const doubt = 30 * time.Second

// spans are the times in which the member was outside of its group, or may have been. outages are the times at which gateways and brokers
// were killed.
func (m *member) spans(outages []time.Time) []harness.Span {
	var out []harness.Span
	for _, f := range m.freezes {
		s := harness.Span{From: f.from, To: f.to.Add(24 * time.Hour), Surely: true}
		knows := m.kind == "kafkajs" // joins again without a word
		for _, e := range m.events {
			switch {
			case e.at.Before(f.to):
			case e.name != "assigned":
				knows = true
			case knows && e.at.Before(s.To):
				s.To = e.at
			}
		}
		out = append(out, s)
	}
	frozen := out
	for _, e := range m.events {
		explained := false
		for _, f := range frozen {
			explained = explained || !e.at.Before(f.From) && !e.at.After(f.To)
		}
		switch {
		case explained || e.name == "assigned":
		case e.name == "lost":
			out = append(out, harness.Span{From: e.at.Add(-doubt), To: e.at})
		case !m.tellsLost():
			for _, o := range outages {
				if d := e.at.Sub(o); d > 0 && d < doubt {
					out = append(out, harness.Span{From: o, To: e.at})
				}
			}
		}
	}
	return out
}
