package cases

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// A client in another language that knows no more than docs/protocol.md finds the features, fetches key ranges, commits individually and reads
// it back.
func TestForeignClientSpeaksTheAdditions(t *testing.T) {
	harness.Need(t, "python3")
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const partitions, records = 2, 600
		topic := harness.Name(t, "orders")
		harness.CreateTopic(t, e.kafka, topic, partitions)
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: records, Keys: 100, Batch: 50})
		cmd := exec.Command("python3", filepath.Join("testdata", "foreign.py"), e.gateway.Bootstrap, topic, strconv.Itoa(partitions), strconv.Itoa(records),
			harness.Name(t, "group"), filepath.Join(harness.Root(), "docs", "protocol.md"))
		p := harness.Start(t, "foreign.py", cmd)
		if err := p.Wait(30 * time.Second); err != nil || strings.TrimSpace(p.Output()) != "ok" {
			t.Errorf("%v\n%s\n%s", err, p.Output(), p.Log())
		}
	})
}
