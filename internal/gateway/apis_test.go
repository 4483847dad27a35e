package gateway

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The table of APIs in docs/protocol.md is made from the table that routes them.
func TestAPIsAreDocumented(t *testing.T) {
	const path, begin, end = "../../docs/protocol.md", "<!-- apis: made by go test ./internal/gateway -update -->\n", "<!-- end of apis -->"
	what := map[int16]string{
		wire.Produce:                 "response: node endpoints; a view is refused",
		wire.Fetch:                   "views are answered by the gateway; otherwise bytes, and from v16 on node endpoints in the response",
		wire.ListOffsets:             "views are answered by the gateway; otherwise bytes",
		wire.Metadata:                "views are made on demand; response: broker addresses",
		wire.OffsetCommit:            "views: the source's stable offset is added; otherwise bytes",
		wire.OffsetFetch:             "views: starts are read back from the group's rows; otherwise bytes",
		wire.FindCoordinator:         "response: broker addresses",
		wire.JoinGroup:               "looked at for subscriptions that read one input twice",
		wire.APIVersions:             "response: narrowed to what the gateway knows; Tandem's features are added",
		wire.DeleteTopics:            "a view's definition goes with its backing topic",
		wire.OffsetForLeaderEpoch:    "views are answered from the source; otherwise bytes",
		wire.AddPartitionsToTxn:      "a view is refused",
		wire.TxnOffsetCommit:         "as OffsetCommit",
		wire.DeleteRecords:           "a view is refused",
		wire.DeleteGroups:            "what the groups have committed individually is deleted with their offsets",
		wire.OffsetDelete:            "as DeleteGroups",
		wire.CreatePartitions:        "a view is refused: it grows with its source",
		wire.DescribeConfigs:         "topics and brokers: the gateway's own settings are added; otherwise bytes",
		wire.AlterConfigs:            "a view's max.message.bytes stays; the gateway's own settings are refused",
		wire.IncrementalAlterConfigs: "a view's max.message.bytes stays; the gateway's own settings are refused",
		wire.DescribeCluster:         "response: broker addresses",
		wire.Heartbeat:               "after commits to views: the source's stable offset is brought up to date",
		wire.LeaveGroup:              "the last member's, after commits to views: as Heartbeat",
		wire.ConsumerGroupHeartbeat:  "as JoinGroup, Heartbeat and LeaveGroup; views are made on demand",
		wire.DescribeTopicPartitions: "views are made on demand",
		wire.ShareGroupHeartbeat:     "a view is refused",
		wire.ShareFetch:              "response: node endpoints",
		wire.ShareAcknowledge:        "response: node endpoints",
	}
	var b strings.Builder
	b.WriteString("| API | key | versions | what the gateway does |\n|---|---|---|---|\n")
	for key := range int16(200) {
		_, special := apis[key]
		special = special || key == wire.Produce || key == wire.APIVersions
		if !special {
			if what[key] != "" {
				t.Errorf("%s is described but passes as bytes", kmsg.NameForKey(key))
			}
			continue
		}
		if what[key] == "" {
			t.Errorf("%s is not described", kmsg.NameForKey(key))
		}
		limit, _ := wire.MaxVersion(key)
		fmt.Fprintf(&b, "| %s | %d | %d–%d | %s |\n", kmsg.NameForKey(key), key, wire.MinVersion(key), limit, what[key])
	}
	replaceTable(t, path, begin, end, b.String())
}

// replaceTable checks a generated table in a document, or writes it with -update.
func replaceTable(t *testing.T, path, begin, end, table string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	i, j := strings.Index(doc, begin), strings.Index(doc, end)
	if i < 0 || j < i {
		t.Fatalf("%s has no place for the table that begins with %s", path, begin)
	}
	want := doc[:i] + begin + table + doc[j:]
	if want == doc {
		return
	}
	if !*update {
		t.Fatalf("a table in %s is old: run go test ./internal/gateway -run Documented -update", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
