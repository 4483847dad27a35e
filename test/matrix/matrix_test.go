package matrix

import (
	"testing"

	"github.com/tandem-kafka/tandem/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// The client matrix through a gateway in front of real Kafka. Not beside that on the embedded engine: two of them starve a broker on two
// cores until its controller takes it for dead.
func TestMatrixOnKafka(t *testing.T) {
	all(t, onKafka(t, ""), "all", "mix")
}

// The client matrix through a gateway with the embedded engine, side by side: clients wait more than they work. Of the libraries, those that
// read committed records in a way of their own; all of them in the soak.
func TestMatrixOnEmbeddedEngine(t *testing.T) {
	g := embedded(t)
	g.SideBySide = true
	all(t, g, "java,java-848,kafkajs,kafka-go", "mix")
}

// An older and a newer Kafka behind the gateway: the consumers of a part of the libraries, and exactly-once.
func TestMatrixOnOtherVersions(t *testing.T) {
	for _, version := range []string{"3.9.1", "4.4.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			g := onKafka(t, version)
			g.matrix(t, "--client", "java,confluent-kafka,franz-go,sarama", "--restart", "--codec", "mix", "--records", "1500", "--parallel", "4")
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
	targets := map[string]Target{"kafka": onKafka(t, ""), "embedded": embedded(t)}
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

func all(t *testing.T, g Target, committed, codec string) {
	run := func(name string, do func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			if g.SideBySide {
				t.Parallel()
			}
			do(t)
		})
	}
	run("consumers", func(t *testing.T) { Consumers(t, g, codec) })
	run("read committed", func(t *testing.T) { ConsumersReadCommitted(t, g, committed, codec) })
	if !g.direct() {
		run("shared by key", func(t *testing.T) { SharedByKey(t, g, codec, false) })
	}
	t.Run("exactly once", func(t *testing.T) {
		twoAtATime := make(chan struct{}, 2)
		for _, program := range []string{"java", "java-848", "confluent-kafka", "streams"} {
			t.Run(program, func(t *testing.T) {
				t.Parallel()
				twoAtATime <- struct{}{}
				defer func() { <-twoAtATime }()
				ExactlyOnce(t, g, program)
			})
		}
	})
	for name, run := range map[string]func(*testing.T, Target){
		"streams": Streams, "producers": Producers, "produce to view": ProduceToView, "read to end": ReadToEnd,
	} {
		t.Run(name, func(t *testing.T) { // mostly programs that start
			t.Parallel()
			run(t, g)
		})
	}
}

func onKafka(t *testing.T, version string) Target {
	k := harness.SharedKafka(t, harness.KafkaConfig{Version: version})
	g := harness.StartGateway(t, harness.GatewayConfig{Kafka: k.Bootstrap})
	return Target{Gateway: g.Bootstrap, Kafka: k.Bootstrap, Partitions: 4}
}

func embedded(t *testing.T) Target {
	g := harness.StartGateway(t, harness.GatewayConfig{})
	return Target{Gateway: g.Bootstrap, Kafka: g.Bootstrap, Partitions: 4, NoStreams: true}
}
