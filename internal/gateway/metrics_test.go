package gateway

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/internal/slicecache"
)

var update = flag.Bool("update", false, "write the generated tables into docs/")

// The table of metrics in docs/operations.md is made from the registry.
func TestMetricsAreDocumented(t *testing.T) {
	const path, begin, end = "../../docs/operations.md", "<!-- metrics: made by go test ./internal/gateway -update -->\n", "<!-- end of metrics -->"
	m := newMetrics()
	cache := slicecache.New(nil, slicecache.Config{})
	defer cache.Close()
	m.registerCache(cache)
	m.registerCoop(&chunkMemory{})
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
	replaceTable(t, path, begin, end, b.String())
}
