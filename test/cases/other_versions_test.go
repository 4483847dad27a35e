package cases

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/test/harness"
)

// onEveryVersion are the cases that hold on each version of Kafka: individual commits, cooperative fetch, ranges in transactions, and the Go client with transactions, with and without a
// gateway. By key alone it runs in test/matrix.
const onEveryVersion = "^(TestManyIndividualCommitsOutliveKills|TestCommitRepeatedAfterACut|TestMembersFetchOnePartitionCooperatively|" +
	"TestCooperativeFetchesAndTransactions|TestRangesInTransactions|TestRangesOfThoseWhoMayNotCommit|TestRangesOfOneTransactionAfterTheOther|TestRangesOfATransactionAcrossAReset|" +
	"TestAcquiredRangesInTransactions|TestExactlyOnceUnderKills|TestExamples)$/^(kafka|gateway|in_process|transactional-worker)$"

// What the Go client rests on, and the client itself, on an older and a newer Kafka: cases of this package once more, each version in a process of its own. Kafka 3.9 has the
// older kind of transactions only.
func TestSoakOtherVersions(t *testing.T) {
	limit := harness.Until(harness.Soak(t, 4))
	harness.Need(t)
	passed := regexp.MustCompile(`(?m)^ *--- PASS: Test\w+/`)
	for _, v := range []struct{ version, transactions string }{{"3.9.1", "/^v1$"}, {"4.4.0", "/^v[12]$"}} {
		if !limit() {
			return
		}
		t.Run(v.version, func(t *testing.T) {
			again := exec.Command(os.Args[0], "-test.v", "-test.count=1", "-test.timeout=10m", "-test.run="+onEveryVersion+v.transactions)
			again.Env = append(os.Environ(), "KAFKA_VERSION="+v.version)
			out, err := again.CombinedOutput()
			if n := len(passed.FindAll(out, -1)); err != nil || n < strings.Count(onEveryVersion, "Test") {
				t.Errorf("on Kafka %s: %v, %d passed\n%s", v.version, err, n, out)
			}
		})
	}
}
