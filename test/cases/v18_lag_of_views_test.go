package cases

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/test/harness"
)

// What LAG counts, as docs/operations.md says: offsets of the source. Of a view the sum is K times the records that are left, of the source
// it goes from the first record that is not done to the end; both are 0 when all is done, and no partition's is negative in between, with
// Java's consumer too, which is sent empty batches (case V18).
func TestLagOfAViewCountsOffsetsOfItsSource(t *testing.T) {
	harness.Need(t)
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const k, first, more = 8, 1000, 800
		source, view := e.source(t, 1, k)
		group, gateway := harness.Name(t, "group"), e.gateway.Bootstrap
		write := func(n int) {
			harness.Produce(t, gateway, harness.NewLedger(), harness.Production{Topic: source, Records: n, Keys: 200})
		}
		read := func(n int) {
			t.Helper()
			out := tool(t, "", consoleConsumer, gateway, "--topic", view, "--group", group, "--from-beginning", "--max-messages", strconv.Itoa(n), "--timeout-ms", "30000")
			if !strings.Contains(out, fmt.Sprintf("Processed a total of %d messages", n)) {
				t.Fatalf("kafka-console-consumer did not get %d records:\n%.2000s", n, out)
			}
		}
		lags := func(what string) (ofView, ofSource int64) {
			t.Helper()
			rows := describe(t, gateway, group)
			for row := range maps.Keys(rows) {
				if rows[row].lag < 0 || rows[row].end < rows[row].current {
					t.Errorf("%s, %s has a negative lag: %+v", what, row, rows[row])
				}
				if strings.HasPrefix(row, view+"/") {
					ofView += rows[row].lag
				} else {
					ofSource += rows[row].lag
				}
			}
			return ofView, ofSource
		}
		write(first)
		read(first)
		if v, s := lags("all done"); v != 0 || s != 0 {
			t.Errorf("all is done, and the lag is %d of the view, %d of the source", v, s)
		}
		write(more)
		if v, s := lags("more written"); s != more || v/k < more*9/10 || v/k > more*11/10 {
			t.Errorf("%d records are left, and the lag is %d of the view (%d times %d), %d of the source", more, v, k, v/k, s)
		}
		read(more / 2) // some slices are done, others not begun
		if v, s := lags("half of it read"); s <= more/2 || s > more || v/k < more*3/10 || v/k > more*7/10 {
			t.Errorf("%d records are left, and the lag is %d of the view (%d times %d), %d of the source", more/2, v, k, v/k, s)
		}
		read(more / 2)
		if v, s := lags("all done again"); v != 0 || s != 0 {
			t.Errorf("all is done, and the lag is %d of the view, %d of the source", v, s)
		}
	})
}
