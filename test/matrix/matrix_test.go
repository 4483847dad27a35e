package matrix

import (
	"testing"

	"github.com/tandem-kafka/tandem/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// The programs and the checks hold on Kafka itself, with a real topic in the view's place. `go test ./test/matrix -run Kit`; not part of
// `make test`, which runs the same through the gateway.
func TestKit(t *testing.T) {
	harness.Need(t)
	harness.OnlyWith(t, "TANDEM_KIT", "proves the kit on Kafka itself")
	k := harness.SharedKafka(t, harness.KafkaConfig{})
	g := Target{Gateway: k.Bootstrap, Kafka: k.Bootstrap, Partitions: Views}
	t.Run("consumers", func(t *testing.T) { Consumers(t, g, "mix") })
	t.Run("read committed", func(t *testing.T) { ConsumersReadCommitted(t, g, "mix") })
	t.Run("streams", func(t *testing.T) { Streams(t, g) })
	for _, program := range []string{"java", "java-848", "confluent-kafka", "streams"} {
		t.Run("exactly once/"+program, func(t *testing.T) {
			t.Parallel()
			ExactlyOnce(t, g, program)
		})
	}
	t.Run("producers", func(t *testing.T) { Producers(t, g) })
	t.Run("produce to view", func(t *testing.T) { ProduceToView(t, g) })
	t.Run("read to end", func(t *testing.T) { ReadToEnd(t, g) })
}
