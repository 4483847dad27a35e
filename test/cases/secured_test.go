package cases

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// users of the secured cluster; each one's password is its name with -secret.
const users = "admin:admin-secret tandem:tandem-secret alice:alice-secret bob:bob-secret"

func securedKafka(t *testing.T) *harness.Kafka {
	t.Helper()
	harness.Need(t)
	return harness.SharedKafka(t, harness.KafkaConfig{Users: users})
}

// as is a client's login with SCRAM.
func as(user string) kgo.Opt {
	return kgo.SASL(scram.Auth{User: user, Pass: user + "-secret"}.AsSha512Mechanism())
}

// trusting is a client's TLS with an authority.
func trusting(t *testing.T, ca string) kgo.Opt {
	t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return kgo.Dialer((&tls.Dialer{Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}).DialContext)
}

// allow gives a user operations on a resource: a topic, a prefix of topic names that ends in *, "group:NAME", "txn:ID" or "cluster". They count when it returns.
func allow(t *testing.T, k *harness.Kafka, user, resource string, ops ...kadm.ACLOperation) {
	t.Helper()
	a, b := harness.AdminClient(t, k.Bootstrap), rule(user, resource, ops...)
	if _, err := a.CreateACLs(harness.Context(t, 10*time.Second), b); err != nil {
		t.Fatal(err)
	}
	awaitRules(t, a, b, len(ops))
}

// revoke takes them away again.
func revoke(t *testing.T, k *harness.Kafka, user, resource string, ops ...kadm.ACLOperation) {
	t.Helper()
	a, b := harness.AdminClient(t, k.Bootstrap), rule(user, resource, ops...)
	deleted, err := a.DeleteACLs(harness.Context(t, 10*time.Second), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deleted {
		if len(d.Deleted) == 0 {
			t.Fatalf("there was no such rule: %s %s", user, resource)
		}
	}
	awaitRules(t, a, b, 0)
}

// awaitRules waits until the broker, of which the secured cluster has one, has so many of the rules: the controller, which answers for them, has them a moment before.
func awaitRules(t *testing.T, a *kadm.Client, b *kadm.ACLBuilder, want int) {
	t.Helper()
	harness.Eventually(t, 20*time.Second, func() error {
		described, err := a.DescribeACLs(harness.Context(t, 10*time.Second), b)
		n := 0
		for _, d := range described {
			n += len(d.Described)
			err = errors.Join(err, d.Err)
		}
		if err == nil && n != want {
			err = fmt.Errorf("the broker has %d of the rules, not %d", n, want)
		}
		return err
	})
}

func rule(user, resource string, ops ...kadm.ACLOperation) *kadm.ACLBuilder {
	b := kadm.NewACLs().Allow("User:" + user).AllowHosts("*").Operations(ops...).ResourcePatternType(kadm.ACLPatternLiteral)
	if name, ok := strings.CutPrefix(resource, "group:"); ok {
		return b.Groups(name)
	}
	if id, ok := strings.CutPrefix(resource, "txn:"); ok {
		return b.TransactionalIDs(id)
	}
	if resource == "cluster" {
		return b.Clusters()
	}
	if prefix, ok := strings.CutSuffix(resource, "*"); ok {
		return b.Topics(prefix).ResourcePatternType(kadm.ACLPatternPrefixed)
	}
	return b.Topics(resource)
}

// gatewayRights is what the gateway's own user needs on the cluster.
func gatewayRights(t *testing.T, k *harness.Kafka, sources string) {
	t.Helper()
	allow(t, k, "tandem", "__tandem_views", kadm.OpRead, kadm.OpWrite, kadm.OpCreate, kadm.OpDescribe, kadm.OpAlter, kadm.OpDescribeConfigs)
	allow(t, k, "tandem", sources+"*", kadm.OpRead, kadm.OpCreate, kadm.OpDelete, kadm.OpAlter, kadm.OpDescribe)
}

// individualRights is what that user needs for individual commits, too.
func individualRights(t *testing.T, k *harness.Kafka) {
	t.Helper()
	allow(t, k, "tandem", icommit.TopicName, kadm.OpRead, kadm.OpWrite, kadm.OpCreate, kadm.OpDescribe)
	allow(t, k, "tandem", offsetsTopic, kadm.OpDescribe, kadm.OpDescribeConfigs)
}

// attempt reads a view with a group's offsets out of it, until records come or an error does.
func attempt(t *testing.T, bootstrap, view string, opts ...kgo.Opt) (records int, err error) {
	t.Helper()
	opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{view: {0: kgo.NewOffset().At(0), 1: kgo.NewOffset().At(0), 2: kgo.NewOffset().At(0), 3: kgo.NewOffset().At(0)}}),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond))
	c := harness.Client(t, bootstrap, opts...)
	defer c.CloseAllowingRebalance()
	ctx := harness.Context(t, 10*time.Second)
	for {
		fetches := c.PollFetches(ctx)
		records += fetches.NumRecords()
		fetches.EachError(func(_ string, _ int32, e error) { err = e })
		if records > 0 || err != nil {
			return records, err
		}
	}
}

// The gateway has a user of its own, by SCRAM over TLS, from the config file; its listening side speaks TLS; clients log in to the cluster
// through it, with SCRAM and with PLAIN, and a wrong password is the cluster's answer.
func TestSecuredEndToEnd(t *testing.T) {
	t.Parallel()
	k := securedKafka(t)
	own := harness.NewCertificate(t)
	password := own.Key + ".password"
	if err := os.WriteFile(password, []byte("tandem-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := harness.Name(t, "secured")
	view, group := source+".view4", harness.Name(t, "group")
	harness.CreateTopic(t, k.Bootstrap, source, 1)
	gatewayRights(t, k, source)
	g := harness.StartGateway(t, harness.GatewayConfig{Kafka: k.SASLTLS, YAML: fmt.Sprintf(`
kafka:
  tls: {ca: %s}
  sasl: {mechanism: SCRAM-SHA-512, username: tandem, password-file: %s}
tls: {cert: %s, key: %s}
`, k.CA, password, own.Cert, own.Key)})
	secure := trusting(t, own.CA)

	// Alice makes the view by asking for it, reads it in a group, and produces to the source.
	allow(t, k, "alice", source, kadm.OpRead, kadm.OpWrite, kadm.OpDescribe)
	allow(t, k, "alice", view, kadm.OpRead, kadm.OpDescribe)
	allow(t, k, "alice", "group:"+group, kadm.OpRead, kadm.OpDescribe)
	l := harness.NewLedger()
	harness.Produce(t, g.Bootstrap, l, harness.Production{Topic: source, Records: 300, Keys: 40, Opts: []kgo.Opt{as("alice"), secure}})
	for i, login := range []sasl.Mechanism{
		scram.Auth{User: "alice", Pass: "alice-secret"}.AsSha512Mechanism(),
		scram.Auth{User: "alice", Pass: "alice-secret"}.AsSha256Mechanism(),
		plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism(),
	} {
		harness.Consume(t, l, harness.ConsumerConfig{Bootstrap: g.Bootstrap, Topics: []string{view}, Group: group, Member: fmt.Sprint(i), Work: time.Millisecond,
			Session: 2 * time.Second, Opts: []kgo.Opt{kgo.SASL(login), secure}})
	}
	l.AwaitDone(t, 30*time.Second)
	l.Check(t, harness.View(1, 4))
	awaitNoLag(t, k.Bootstrap, group, source, 10*time.Second)

	ctx := harness.Context(t, 10*time.Second)
	wrong := harness.Client(t, g.Bootstrap, kgo.SASL(scram.Auth{User: "alice", Pass: "guess"}.AsSha512Mechanism()), secure)
	if err := wrong.Ping(ctx); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a wrong password: %v", err)
	}
	short, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := harness.Client(t, g.Bootstrap, as("alice")).Ping(short); err == nil {
		t.Error("a client without TLS was served on the TLS port")
	}
	short2, cancel2 := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel2()
	if err := harness.Client(t, g.Bootstrap, secure).Ping(short2); err == nil {
		t.Error("a client without a login was served")
	}
	for _, secret := range []string{"tandem-secret", "alice-secret"} {
		if strings.Contains(g.Log(), secret) {
			t.Errorf("the log shows the password %s", secret)
		}
	}
}

// Shared data goes only to connections whose own principal may READ the source; everybody else gets TOPIC_AUTHORIZATION_FAILED, for
// records, offsets and epochs, whether the view is warm in the gateway's memory or not. A right that is taken away ends an open connection's reading, one
// that is given opens it.
func TestOnlyReadersOfTheSourceGetItsRecords(t *testing.T) {
	t.Parallel()
	k := securedKafka(t)
	source := harness.Name(t, "secured")
	view := source + ".view4"
	harness.CreateTopic(t, k.Bootstrap, source, 1)
	gatewayRights(t, k, source)
	g := harness.StartGateway(t, harness.GatewayConfig{Kafka: k.SASL, YAML: `
kafka:
  sasl: {mechanism: PLAIN, username: tandem, password: tandem-secret}
limits: {authorization-recheck-interval: 500ms}
`})
	l := harness.NewLedger()
	keys := keysOf(4, 5)
	harness.Produce(t, k.Bootstrap, l, harness.Production{Topic: source, Records: 100, Key: func(i int) []byte { return keys[i%20] }})

	// Bob may read the view's own topic, not the source: he cannot even make the view.
	allow(t, k, "bob", view, kadm.OpRead, kadm.OpDescribe)
	if n, err := attempt(t, g.Bootstrap, view, as("bob")); n > 0 || !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("bob, before the view was made: %d records, %v", n, err)
	}
	allow(t, k, "alice", source, kadm.OpRead, kadm.OpDescribe)
	allow(t, k, "alice", view, kadm.OpRead, kadm.OpDescribe)
	if n, err := attempt(t, g.Bootstrap, view, as("alice")); n == 0 || err != nil {
		t.Fatalf("alice: %d records, %v", n, err)
	}
	// Now the records are in the gateway's memory.
	if n, err := attempt(t, g.Bootstrap, view, as("bob")); n > 0 || !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("bob: %d records, %v", n, err)
	}
	bob := harness.Client(t, g.Bootstrap, as("bob"))
	asked(t, bob, view, kerr.TopicAuthorizationFailed.Code)
	asked(t, harness.Client(t, g.Bootstrap, as("alice")), view, 0)

	// Alice loses the right while she reads.
	alice := harness.Client(t, g.Bootstrap, as("alice"), kgo.ConsumeTopics(view), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond), kgo.KeepRetryableFetchErrors())
	poll := func() (records int, err error) {
		fetches := alice.PollFetches(harness.Context(t, time.Second))
		fetches.EachError(func(_ string, _ int32, e error) {
			if !errors.Is(e, context.DeadlineExceeded) {
				err = e
			}
		})
		return fetches.NumRecords(), err
	}
	read := 0
	await(t, 10*time.Second, func() string {
		n, err := poll()
		if read += n; read < 100 {
			return fmt.Sprintf("alice has read %d records, %v", read, err)
		}
		return ""
	})
	revoke(t, k, "alice", source, kadm.OpRead)
	await(t, 10*time.Second, func() string {
		if _, err := poll(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
			return fmt.Sprintf("alice has lost the right and gets %v", err)
		}
		return ""
	})
	harness.Produce(t, k.Bootstrap, l, harness.Production{Topic: source, Records: 100, Key: func(i int) []byte { return keys[i%20] }})
	for range 5 {
		if n, _ := poll(); n > 0 {
			t.Fatalf("alice has lost the right and gets %d records", n)
		}
	}
	// And gets it back.
	allow(t, k, "alice", source, kadm.OpRead)
	await(t, 15*time.Second, func() string {
		n, err := poll()
		if read += n; read < 200 {
			return fmt.Sprintf("alice has the right again: %d of 200 records, %v", read, err)
		}
		return ""
	})
	// The source's reader who may not read the view is the cluster's affair, and gets nothing either.
	revoke(t, k, "bob", view, kadm.OpRead)
	allow(t, k, "bob", source, kadm.OpRead, kadm.OpDescribe)
	if n, err := attempt(t, g.Bootstrap, view, as("bob")); n > 0 || !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("bob without READ on the view: %d records, %v", n, err)
	}
}

// asked sends ListOffsets and OffsetForLeaderEpoch for a view and checks the error codes.
func asked(t *testing.T, c *kgo.Client, view string, want int16) {
	t.Helper()
	ctx := harness.Context(t, 10*time.Second)
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.ReplicaID = -1
	topic, partition := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	partition.Timestamp, partition.CurrentLeaderEpoch = -1, -1
	topic.Topic, topic.Partitions = view, append(topic.Partitions, partition)
	offsets.Topics = append(offsets.Topics, topic)
	if resp, err := offsets.RequestWith(ctx, c); err != nil || resp.Topics[0].Partitions[0].ErrorCode != want {
		t.Errorf("ListOffsets: %+v, %v; want code %d", resp, err, want)
	}
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epochs.ReplicaID = -1
	et, ep := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	ep.CurrentLeaderEpoch = -1
	et.Topic, et.Partitions = view, append(et.Partitions, ep)
	epochs.Topics = append(epochs.Topics, et)
	if resp, err := epochs.RequestWith(ctx, c); err != nil || resp.Topics[0].Partitions[0].ErrorCode != want {
		t.Errorf("OffsetForLeaderEpoch: %+v, %v; want code %d", resp, err, want)
	}
}

// A TLS hello on a plain port is named in the log, with the cure.
func TestTLSOnAPlainPortIsNamed(t *testing.T) {
	t.Parallel()
	e := onEmbedded(t, harness.GatewayConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = harness.Client(t, e.gateway.Bootstrap, kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true})).Ping(ctx)
	await(t, 5*time.Second, func() string {
		if log := e.gateway.Log(); !strings.Contains(log, "the client speaks TLS") {
			return log
		}
		return ""
	})
}
