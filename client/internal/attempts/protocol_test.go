package attempts

import (
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/keyrange"
)

// The records in docs/protocol.md are what is written and read.
func TestRecordsInTheDocumentation(t *testing.T) {
	data, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(data), "<!-- retries: checked by go test ./client/internal/attempts -->\n")
	text, _, ok2 := strings.Cut(text, "<!-- end of retries -->")
	if !ok || !ok2 {
		t.Fatal("docs/protocol.md lacks the records")
	}
	var lines []string
	for line := range strings.Lines(text) {
		if s, indented := strings.CutPrefix(line, "    "); indented {
			lines = append(lines, strings.TrimSpace(s))
		}
	}
	const id = "N13ZTFHdRXyvppCl96dSZA=="
	state, err := encode(1, key{Group: "billing", Topic: "orders", Offset: 42}, &State{Attempts: 3, NextAt: 1796024730602298538, Cause: "exit status 1", Hash: 296444397, Keyed: true, TopicID: id})
	if err != nil {
		t.Fatal(err)
	}
	mark, err := encode(1, key{Group: "billing", Topic: "orders", Session: "MF5R4TVQNOPQI6OYCZ77VO2NYJ"}, &Mark{Keys: keyrange.Set{{First: 0, Last: 1<<31 - 1}}, Base: 1, TopicID: id})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, r := range []*kgo.Record{state, mark} {
		want = append(want, string(r.Key), string(r.Value))
		if _, s, m, err := decode(r); err != nil || s == nil && m == nil {
			t.Errorf("%s is read as %v, %v, %v", r.Value, s, m, err)
		}
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the documentation has\n%s\nbut\n%s\nis written", got, strings.Join(want, "\n"))
	}
}
