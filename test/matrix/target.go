package matrix

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Views is the number of virtual partitions of every view here.
const Views = 16

// Target says where clients connect and what they read.
type Target struct {
	Gateway    string // HOST:PORT list that the clients under test get
	Kafka      string // HOST:PORT list of the cluster itself (on the embedded engine: the gateway)
	Partitions int32  // of the source; Views when a real topic stands in a view's place
	NoStreams  bool   // the engine lacks the Streams group protocol (KIP-1071)
}

// direct says that a real topic stands in the view's place.
func (g Target) direct() bool { return g.Partitions == Views }

// source creates a source topic and returns its name and the name of its view.
func (g Target) source(t testing.TB, prefix string) (source, view string) {
	t.Helper()
	source = harness.Name(t, prefix)
	harness.CreateTopic(t, g.Kafka, source, g.Partitions)
	if g.direct() {
		return source, source
	}
	return source, source + ".view16"
}

// open asks for a view as a consumer does, so that it exists.
func (g Target) open(t testing.TB, view string) {
	t.Helper()
	c := harness.Client(t, g.Gateway, kgo.ConsumeTopics(view), kgo.AllowAutoTopicCreation())
	harness.Eventually(t, 20*time.Second, func() error {
		ends, err := kadm.NewClient(c).ListEndOffsets(harness.Context(t, 5*time.Second), view)
		if err == nil && len(ends[view]) != Views {
			err = fmt.Errorf("view %s has %d partitions", view, len(ends[view]))
		}
		return err
	})
}

// output creates the topic that an application writes to.
func (g Target) output(t testing.TB, name string) string {
	t.Helper()
	harness.CreateTopic(t, g.Kafka, name, 4)
	return name
}

// output is a record of an output topic.
type output struct {
	key, value string
}

// follow reads all of a topic, read_committed, until done says that it is enough, and then as long again as no more than quiet passes
// without a record: time for what must not come.
func (g Target) follow(t testing.TB, topic string, limit, quiet time.Duration, done func(all []output) bool) []output {
	t.Helper()
	c := harness.Client(t, g.Kafka, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer c.Close()
	var all []output
	ctx := harness.Context(t, limit)
	for !done(all) {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Errorf("topic %s: %d records after %v, and they are not enough", topic, len(all), limit)
			return all
		}
		fetches.EachRecord(func(r *kgo.Record) { all = append(all, output{string(r.Key), string(r.Value)}) })
	}
	for more := true; more; {
		more = false
		fetches := c.PollFetches(harness.Context(t, quiet))
		fetches.EachRecord(func(r *kgo.Record) {
			more = true
			all = append(all, output{string(r.Key), string(r.Value)})
		})
	}
	return all
}
