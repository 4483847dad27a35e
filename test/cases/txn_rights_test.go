package cases

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Who may not READ the group, or the topic, has nothing written for it, not even in a transaction of its own.
func TestRightsToCommitRangesInTransactions(t *testing.T) {
	t.Parallel()
	k := securedKafka(t)
	topic, group := harness.Name(t, "secured"), harness.Name(t, "group")
	harness.CreateTopic(t, k.Bootstrap, topic, 1)
	gatewayRights(t, k, topic)
	individualRights(t, k)
	allow(t, k, "tandem", "txn:"+group, kadm.OpWrite)
	allow(t, k, "alice", "txn:"+group, kadm.OpWrite)
	allow(t, k, "alice", "group:"+group, kadm.OpDescribe)
	allow(t, k, "alice", topic, kadm.OpDescribe)
	e := engine{name: "kafka", kafka: k.Bootstrap, cluster: k, gateway: harness.StartGateway(t, harness.GatewayConfig{Kafka: k.SASL, YAML: `
kafka:
  sasl: {mechanism: PLAIN, username: tandem, password: tandem-secret}
limits: {authorization-recheck-interval: 500ms}
`})}
	w := e.wire(t, group, as("alice"))
	p := initProducer(w, group, false, time.Minute)
	refused := func(what string, want error) {
		t.Helper()
		p.refused(w, topic, 0, rangesOf(whole, span(3, 4)), want)
		if n := factsOf(t, k.Bootstrap, group); n > 0 {
			t.Errorf("without READ on the %s %d records are in the log", what, n)
		}
	}
	refused("group", kerr.GroupAuthorizationFailed)
	allow(t, k, "alice", "group:"+group, kadm.OpRead)
	refused("topic", kerr.TopicAuthorizationFailed)
	allow(t, k, "alice", topic, kadm.OpRead)
	p.commit(w, topic, 0, rangesOf(whole, span(5, 6)))
	if n := factsOf(t, k.Bootstrap, group); n != 1 {
		t.Errorf("with all rights %d records are in the log", n)
	}
	p.end(w, true)
	w.awaitStable(topic, "0 [00000000-ffffffff] [5-6]")
}

// factsOf is how many records of a group the log of individual commits has, decided or not.
func factsOf(t *testing.T, bootstrap, group string) (n int) {
	t.Helper()
	for _, r := range readAll(t, bootstrap, icommit.TopicName) {
		if strings.Contains(string(r.Key), group) {
			n++
		}
	}
	return n
}
