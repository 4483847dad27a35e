package gateway

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/internal/slicecache"
)

var update = flag.Bool("update", false, "write the table of metrics into docs/operations.md")

// The table of metrics in docs/operations.md is made from the registry.
func TestMetricsAreDocumented(t *testing.T) {
	const path, begin, end = "../../docs/operations.md", "<!-- metrics: made by go test ./internal/gateway -update -->\n", "<!-- end of metrics -->"
	m := newMetrics()
	cache := slicecache.New(nil, slicecache.Config{})
	defer cache.Close()
	m.registerCache(cache)
	m.request(3)
	m.commits.WithLabelValues("ok")
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| metric | type | meaning |\n|---|---|---|\n")
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "tandem_") {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), f.GetHelp())
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	i, j := strings.Index(doc, begin), strings.Index(doc, end)
	if i < 0 || j < i {
		t.Fatalf("%s has no place for the table of metrics", path)
	}
	want := doc[:i] + begin + b.String() + doc[j:]
	if want == doc {
		return
	}
	if !*update {
		t.Fatalf("the table of metrics in %s is old: run go test ./internal/gateway -run Documented -update", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
