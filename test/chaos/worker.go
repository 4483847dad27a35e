package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tandem-kafka/tandem/test/harness"
)

// goTransact are processes with Tandem's own client that share the few partitions of the source by keys and copy the records in transactions.
var goTransact = &program{name: "go", worker: true}

// transactionTimeout is shorter than the session: a member that is frozen has its transaction aborted before others get its key ranges, or after.
const transactionTimeout = session / 2

// addWorker starts a member that is a worker. Some carry the gateway in their process. Who takes the place of one that was killed takes its transactional id.
func (s *scene) addWorker(m *member) {
	s.Helper()
	for slices.ContainsFunc(s.members, func(o *member) bool { return o.slot == m.slot }) {
		m.slot++
	}
	spec := harness.WorkerSpec{Bootstrap: m.bootstrap, Group: s.group, Topics: []string{s.source}, Member: fmt.Sprintf("member-%d", len(s.members)+len(s.past)), Session: session}
	if s.byRecord > 0 {
		s.sharesByRecord(m, &spec)
	} else {
		spec.Out, spec.Work, spec.Concurrency = s.out, 3*time.Millisecond, 8
		spec.Transactional, spec.Transaction = fmt.Sprintf("%s-%d", s.group, m.slot), transactionTimeout
	}
	if m.kind = "tandem"; s.random.IntN(3) == 0 {
		m.kind, m.bootstrap = inProcess, s.kafka.Bootstrap
		spec.Bootstrap, spec.InProcess = m.bootstrap, true
	}
	m.id = spec.Member
	m.Process = harness.StartWorker(s, spec).Process
}

// moveLeaders has other brokers lead the partitions of what the transactions write to.
func (s *scene) moveLeaders() {
	s.Helper()
	<-s.resuming
	s.await(patience, s.copies)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	topics, err := s.admin.ListTopicsWithInternal(ctx, s.source, s.out, "__individual_commit_offsets", "__transaction_state", "__consumer_offsets")
	var order kadm.AlterPartitionAssignmentsReq
	topics.EachPartition(func(p kadm.PartitionDetail) {
		brokers := slices.Clone(p.Replicas)
		s.random.Shuffle(len(brokers), func(i, j int) { brokers[i], brokers[j] = brokers[j], brokers[i] })
		order.Assign(p.Topic, p.Partition, brokers)
	})
	if err == nil {
		_, err = s.admin.AlterPartitionAssignments(ctx, order)
	}
	if err == nil {
		_, err = s.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
	}
	s.say("other brokers lead, error %v", err)
}
