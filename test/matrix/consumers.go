package matrix

import (
	"fmt"
	"testing"

	"github.com/tandem-kafka/tandem/test/harness"
)

// atOnce is how many clients a part of the matrix runs side by side, each with three members or more; work is what they do for a record, in ms:
// so long that few records are enough for members to come and go among them.
const atOnce, work = "3", "6"

// Consumers runs every consumer library of the kit and Tandem's own client, three members each, one killed and one replaced in the middle, and a mixed group of
// all libraries but Streams; batches of all codecs. With codec "mix" they rotate.
func Consumers(t *testing.T, g Target, codec string) {
	clients := "all,mixed"
	if !g.direct() {
		clients += ",tandem" // which takes whole virtual partitions
	}
	g.matrix(t, "--client", clients, "--restart", "--codec", codec, "--records", "1500", "--keys", "200")
}

// ConsumersReadCommitted runs the consumer libraries with read_committed on transactions, a part of which aborts; one member killed and
// one replaced. Through a gateway even the libraries that leak aborted records on plain Kafka have to be right.
func ConsumersReadCommitted(t *testing.T, g Target, clients, codec string) {
	args := []string{"--client", clients, "--restart", "--transactional", "--codec", codec, "--records", "1200", "--keys", "200"}
	if !g.direct() {
		args = append(args, "--strict")
	}
	g.matrix(t, args...)
}

// SharedByKey runs Tandem's own client on a plain topic of two partitions, which the three members share by keys: with handlers, with polls, and
// where a cluster is behind the gateway straight on that, too. One member is killed and one replaced. Transactional: a part of the data aborts.
func SharedByKey(t *testing.T, g Target, codec string, transactional bool) {
	clients := "tandem,tandem-poll"
	if g.Kafka != g.Gateway {
		clients += ",tandem-in-process"
	}
	args := []string{"--client", clients, "--restart", "--codec", codec, "--records", "1500", "--keys", "200", "--parallel", atOnce, "--work-ms", work,
		"--bootstrap", g.Gateway, "--physical-bootstrap", g.Kafka, "--topic", harness.Name(t, "shared"), "--partitions", "2", "--views", "2"}
	if transactional {
		args = append(args, "--transactional", "--strict")
	}
	harness.Matrix(t, args...)
}

func (g Target) matrix(t *testing.T, args ...string) {
	t.Helper()
	source, view := g.source(t, "matrix")
	harness.Matrix(t, append(args, "--bootstrap", g.Gateway, "--physical-bootstrap", g.Kafka, "--topic", view, "--physical-topic", source,
		"--partitions", fmt.Sprint(g.Partitions), "--views", fmt.Sprint(Views), "--parallel", atOnce, "--work-ms", work)...)
}
