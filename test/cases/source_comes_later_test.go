package cases

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Consumers of a view that start before its source exists are served as those of an ordinary topic: they wait, the gateway's log says for
// what, and soon after the topic was made, past the gateway, they read it.
func TestConsumersWaitForTheSourceOfTheirView(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		source := harness.Name(t, "later")
		view, group := source+".view4", harness.Name(t, "group")
		l := harness.NewLedger()
		for i := range 2 {
			harness.Consume(t, l, e.consumer(group, fmt.Sprintf("member-%d", i), view))
		}
		await(t, 10*time.Second, func() string {
			if log := e.gateway.Log(); !strings.Contains(log, "a client asks for a view whose source does not exist") || !strings.Contains(log, view) {
				return "the log does not say what is missing:\n" + log
			}
			return ""
		})
		if topics, err := harness.AdminClient(t, e.kafka).ListTopics(harness.Context(t, 10*time.Second)); err != nil || topics.Has(source) || topics.Has(view) {
			t.Fatalf("somebody made a topic: %v, %v", topics.Names(), err)
		}
		harness.CreateTopic(t, e.kafka, source, 1)
		harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: 200, Keys: 20})
		l.AwaitDone(t, 15*time.Second)
		if r := l.Check(t, harness.View(1, 4)); r.Bad() {
			t.Error("not as it should be")
		}
	})
}

// Where the cluster makes topics that are asked for, and the client lets it (Java's do), asking for the view makes the source.
func TestConsumerOfAViewMakesItsSource(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const records = 40
		source := harness.Name(t, "asked")
		view := source + ".view4"
		read := make(chan string)
		go func() {
			read <- tool(t, "", consoleConsumer, e.gateway.Bootstrap, "--topic", view, "--from-beginning", "--max-messages", strconv.Itoa(records), "--timeout-ms", "30000")
		}()
		admin := harness.AdminClient(t, e.kafka)
		await(t, 20*time.Second, func() string {
			topics, err := admin.ListTopics(harness.Context(t, 10*time.Second))
			if err != nil || len(topics[source].Partitions) != 1 || len(topics[view].Partitions) != 4 {
				return fmt.Sprintf("topics %v, %v", topics.Names(), err)
			}
			return ""
		})
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: source, Records: records, Keys: 20})
		if out := <-read; !strings.Contains(out, fmt.Sprintf("Processed a total of %d messages", records)) {
			t.Errorf("kafka-console-consumer did not get the records:\n%s", out)
		}
	})
}
