package matrix

import (
	"testing"

	"github.com/tandem-kafka/tandem/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m, 1) }

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// The client matrix through a gateway in front of real Kafka.
func TestMatrixOnKafka(t *testing.T) {
	t.Parallel()
	all(t, onKafka(t), "all", "mix")
}

// The client matrix through a gateway with the embedded engine. Of the libraries, those that read committed records in a way of their own; all
// of them in the soak.
func TestMatrixOnEmbeddedEngine(t *testing.T) {
	t.Parallel()
	all(t, embedded(t), "java,java-848,kafkajs,kafka-go", "mix")
}

// An older and a newer Kafka behind the gateway: the consumers of a part of the libraries, and exactly-once.
func TestMatrixOnOtherVersions(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"3.9.1", "4.4.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			g := before(t, harness.StartKafka(t, harness.KafkaConfig{Version: version}))
			g.matrix(t, "--client", "java,confluent-kafka,franz-go,sarama", "--restart", "--codec", "mix", "--records", "1000")
			ExactlyOnce(t, g, "confluent-kafka")
		})
	}
}

// committedOn is the libraries that read committed records in the soak. Streams is left out on the embedded engine: once, on a busy machine,
// three members that joined together did not come out of their first rebalance there.
var committedOn = map[string]string{"kafka": "all", "embedded": "java,java-848,confluent-kafka,kafkajs,franz-go,sarama,kafka-go"}

// The matrix with each codec in turn, again and again until its share of the soak is used up.
func TestSoakMatrix(t *testing.T) {
	limit := harness.Until(harness.Soak(t, 16))
	targets := map[string]Target{"kafka": onKafka(t), "embedded": embedded(t)}
	for round := 0; limit(); round++ {
		for engine, g := range targets {
			codec := codecs[round%len(codecs)]
			if !limit() {
				return
			}
			t.Run(engine+"/"+codec, func(t *testing.T) { Consumers(t, g, codec) })
			if !limit() {
				return
			}
			t.Run(engine+"/shared by key "+codec, func(t *testing.T) { SharedByKey(t, g, codec, round%2 == 0) })
			if !limit() {
				return
			}
			t.Run(engine+"/read committed "+codec, func(t *testing.T) { ConsumersReadCommitted(t, g, committedOn[engine], codec) })
		}
	}
}

// The programs and the checks hold on Kafka itself, with a real topic in a view's place. Run it after a change of the kit.
func TestKit(t *testing.T) {
	harness.Need(t)
	harness.OnlyWith(t, "TANDEM_KIT", "proves the kit on Kafka itself")
	k := harness.SharedKafka(t, harness.KafkaConfig{})
	all(t, Target{Gateway: k.Bootstrap, Kafka: k.Bootstrap, Partitions: Views}, "all", "mix")
}

// all runs the parts of the matrix side by side: clients wait more than they work.
func all(t *testing.T, g Target, committed, codec string) {
	run := func(name string, do func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			do(t)
		})
	}
	run("consumers", func(t *testing.T) { Consumers(t, g, codec) })
	run("read committed", func(t *testing.T) { ConsumersReadCommitted(t, g, committed, codec) })
	for _, program := range []string{"java", "java-848", "confluent-kafka", "streams"} {
		run("exactly once "+program, func(t *testing.T) { ExactlyOnce(t, g, program) })
	}
	if !g.direct() {
		run("shared by key", func(t *testing.T) { SharedByKey(t, g, codec, false) })
	}
	run("streams", func(t *testing.T) { Streams(t, g) })
	run("producers", func(t *testing.T) { Producers(t, g) })
	run("produce to view", func(t *testing.T) { ProduceToView(t, g) })
	run("read to end", func(t *testing.T) { ReadToEnd(t, g) })
}

func onKafka(t *testing.T) Target {
	return before(t, harness.SharedKafka(t, harness.KafkaConfig{}))
}

// before is a gateway before a cluster.
func before(t *testing.T, k *harness.Kafka) Target {
	g := harness.StartGateway(t, harness.GatewayConfig{Kafka: k.Bootstrap})
	return Target{Gateway: g.Bootstrap, Kafka: k.Bootstrap, Partitions: 4}
}

func embedded(t *testing.T) Target {
	g := harness.StartGateway(t, harness.GatewayConfig{})
	return Target{Gateway: g.Bootstrap, Kafka: g.Bootstrap, Partitions: 4, NoStreams: true}
}
