package chaos

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// program is a client of the kit that reads the view, transforms, and writes in transactions with its offsets.
type program struct {
	name          string
	args          []string
	consumerGroup bool // KIP-848
	hangs         bool // librdkafka's producer can wait for ever in send_offsets_to_transaction, nothing in flight, when all brokers were away
	worker        bool // it is no program of the kit, but Tandem's own client
	streams       bool // the group is GROUP-eos and the output GROUP-eos-out; the output has the source's timestamps
}

var (
	javaTransact      = &program{name: "java", args: []string{"java-main", "TransactMain"}}
	java848Transact   = &program{name: "java-848", args: []string{"java-main", "TransactMain", "--protocol", "consumer"}, consumerGroup: true}
	confluentTransact = &program{name: "confluent", args: []string{"python-main", "confluent_transact.py"}, hangs: true}
	streamsTransact   = &program{name: "streams", args: []string{"java-main", "StreamsApps", "--apps", "eos"}, streams: true}
)

func (p *program) String() string { return p.name }

// died says that the program is of no use any more though its process lives.
func (p *program) died(m *member) bool {
	return p.streams && strings.Contains(m.Output(), `"event":"error"`)
}

// stuck says that a member that can hang has printed nothing for a while though records wait for the group. Of those without transactions it is
// librdkafka once a gateway is gone: it may not find its way to the other one (test/clients/README.md).
func (s *scene) stuck(m *member) bool {
	can := m.kind == "confluent-kafka" && slices.Contains(s.gone, true)
	if s.program != nil {
		can = s.program.hangs
	}
	if !can {
		return false
	}
	info, err := os.Stat(m.Out)
	if err != nil {
		return false
	}
	if s.ledger.Open() == 0 || info.Size() != m.printed || m.active.IsZero() {
		m.printed, m.active = info.Size(), time.Now()
	}
	return time.Since(m.active) > hung
}

// where says where a record is in the output, and in which transaction.
func where(r *kgo.Record) string {
	return fmt.Sprintf("%d/%d of producer %d, epoch %d, written at %s", r.Partition, r.Offset, r.ProducerID, r.ProducerEpoch, r.Timestamp.Format("15:04:05.000"))
}

// hung is longer than anything that such a member waits for when it is well: transactions time out after 4 s.
const hung = 20 * time.Second

// prepare makes the output topic and reads it, committed records only, into the ledger: a record is done when it is in the output, at the
// time at which it was written there.
func (p *program) prepare(s *scene) {
	s.Helper()
	s.out = s.group + "-out"
	if p.consumerGroup {
		harness.ConsumerSession(s, s.kafka.Bootstrap, s.group, session, session/6)
	}
	if p.streams {
		s.group += "-eos" // the application's id is made of the option --group
		s.out = s.group + "-out"
	}
	harness.CreateTopic(s, s.kafka.Bootstrap, s.out, 4)
	inOrder, first, twice := s.started, map[int64]*kgo.Record{}, 0
	s.caughtUp, _ = harness.FollowCommitted(s, s.kafka.Bootstrap, s.out, func(r *kgo.Record) {
		n := number(string(r.Value))
		if first[n] == nil {
			first[n] = r
		} else if twice++; twice <= 5 {
			s.say("record %d is in the output twice: %s, and %s", n, where(first[n]), where(r))
		}
		d := harness.Delivery{Member: "output", Partition: r.Partition, Offset: -1, N: n, Start: r.Timestamp, End: r.Timestamp}
		if p.streams {
			inOrder = inOrder.Add(time.Microsecond)
			d.Start, d.End = inOrder, inOrder
		}
		s.ledger.Delivered(d)
	})
	if !p.streams {
		s.watching = harness.WatchCommitted(s, s.kafka.Bootstrap, s.group, s.source, s.ledger)
	}
}
