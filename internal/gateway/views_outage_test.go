package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/internal/view"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Without the definitions topic, its views would be read as empty topics, and
// clients would reset their positions: gateways keep them, and write the topic
// again.
func TestDefinitionsTopicIsDeleted(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.RefreshTopics = 20 * time.Millisecond })
	w.topic("orders", 1)
	w.produce("orders", 10)
	v, err := w.gw.views.Create(t.Context(), "wide", "orders", 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.gw.views.slot(t.Context(), 100001); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.DeleteTopic(t.Context(), upstream.DefinitionsTopic); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		other := newViews(w.gw) // as a gateway that starts now
		if err := other.load(t.Context()); err != nil {
			return err
		}
		if w := other.Name("wide"); w == nil || w.BackingID != v.BackingID {
			return fmt.Errorf("%+v", w)
		}
		if s, ok := other.log.PortSlot(100001); !ok || s != 1001 {
			return fmt.Errorf("slot %d, %v", s, ok)
		}
		if now := w.gw.views.Name("wide"); now == nil || now.Backing != 4 {
			t.Fatalf("the view was forgotten: %+v", now)
		}
		return nil
	})
	r := w.dial(0).ask(fetchOf(12, "wide", 0, 0, [16]byte{})).(*kmsg.FetchResponse)
	if code := r.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Errorf("error %d", code)
	}
	if err := w.gw.views.Delete(t.Context(), "wide"); err != nil { // deleted is deleted
		t.Fatal(err)
	}
	if err := w.gw.views.refresh(t.Context()); err != nil || w.gw.views.Name("wide") != nil {
		t.Errorf("%+v, %v", w.gw.views.Name("wide"), err)
	}
}

// A backing topic that was deleted on the cluster is made again when a client
// asks, by a name of any kind; the cluster must not make an ordinary topic.
func TestBackingTopicIsDeletedOnTheCluster(t *testing.T) {
	w := newWorld(t, nil, kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(3))
	w.topic("orders", 2)
	for _, name := range []string{"wide", "orders.view8"} {
		if _, err := w.gw.views.Create(t.Context(), name, "orders", 8); err != nil {
			t.Fatal(err)
		}
		if err := w.gw.cluster.DeleteTopic(t.Context(), name); err != nil { // past the gateway
			t.Fatal(err)
		}
		if err := w.gw.views.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := w.metadata(9, name)
		if got.ErrorCode != 0 || len(got.Partitions) != 8 {
			t.Errorf("%s: error %d, %d partitions", name, got.ErrorCode, len(got.Partitions))
		}
		if c := w.fake.TopicInfo(name).Configs["max.message.bytes"]; c == nil || *c != "78" {
			t.Errorf("%s: an ordinary topic was made", name)
		}
	}
}

// metadata asks for one topic, with auto-creation where the version has it.
func (w *world) metadata(version int16, name string) kmsg.MetadataResponseTopic {
	w.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = version, true
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, rt)
	resp := w.dial(anyBroker).ask(req).(*kmsg.MetadataResponse)
	if len(resp.Topics) != 1 || len(resp.Brokers) == 0 {
		w.t.Fatalf("v%d: %d topics, %d brokers", version, len(resp.Topics), len(resp.Brokers))
	}
	return resp.Topics[0]
}

// In version 0 an empty list of topics means all of them, and every name may
// be made a topic.
func TestMetadataOfAnImpossibleViewInEveryVersion(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.HoldImpossible = time.Millisecond }, kfake.AllowAutoTopicCreation())
	w.topic("orders", 4)
	for version := range int16(13) {
		if got := w.metadata(version, "orders.view6"); got.ErrorCode != kerr.InvalidTopicException.Code {
			t.Errorf("v%d: error %d", version, got.ErrorCode)
		}
		if got := w.metadata(version, "orders.view6.view12"); got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("v%d: error %d for a view of what could be a view only", version, got.ErrorCode)
		}
	}
	if w.fake.TopicInfo("orders.view6") != nil || w.fake.TopicInfo("orders.view6.view12") != nil {
		t.Error("the cluster has made a topic of it")
	}
}

// A view of the config file whose source is not there yet waits for it; nobody
// else may make a topic of its name meanwhile.
func TestConfiguredViewWaitsForItsSource(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Limits.RefreshTopics = 20 * time.Millisecond
		c.Views = map[string]ViewConfig{"wide": {Source: "orders", Partitions: 8}, "odd": {Source: "later", Partitions: 6}}
	}, kfake.AllowAutoTopicCreation())
	if got := w.metadata(9, "wide"); got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("before its source is there: error %d", got.ErrorCode)
	}
	w.topic("orders", 2)
	until(t, func() error {
		if v := w.gw.views.Name("wide"); v == nil || v.Backing != 8 {
			return fmt.Errorf("%+v", v)
		}
		return nil
	})
	w.topic("later", 4)
	until(t, func() error {
		if !strings.Contains(w.log.String(), "a view of the config file cannot be made") {
			return errString("the log does not say that odd is impossible")
		}
		return nil
	})
	cfg := w.gw.cfg
	if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "4 or 8") {
		t.Errorf("starting with an impossible view: %v", err)
	}
}

// While the cluster does not answer questions about views, those that are known
// are served, and whoever names unknown topics gets an error in bounded time.
func TestKnownViewsAreServedWhileTheClusterIsSlow(t *testing.T) {
	w, v := viewWorld(t)
	conn := w.dial(0)
	conn.ask(fetchOf(13, "wide", 1, 0, v.BackingID))
	if err := w.gw.views.working.take(t.Context()); err != nil { // somebody waits for the cluster, for ever
		t.Fatal(err)
	}
	defer w.gw.views.working.give()
	start := time.Now()
	r := conn.ask(fetchOf(13, "wide", 1, 0, v.BackingID)).(*kmsg.FetchResponse)
	if p := r.Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	conn.ask(fetchOf(12, "orders", 0, 0, [16]byte{})) // seen in metadata
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.gw.views.resolve(ctx, topicRef{name: "unheard-of"}); err == nil {
		t.Error("a topic that nothing is known of counts as no view")
	}
}

// Clients that wait for the same answer share it, also when it is an error.
func TestLookUpsAreShared(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.RefreshTopics = time.Hour })
	w.topic("orders", 1)
	asked := w.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: upstream.DefinitionsTopic, Observe: true, Count: -1})
	if err := w.gw.views.working.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if err := w.gw.views.resolve(t.Context(), topicRef{name: fmt.Sprintf("topic-%d", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond) // all wait by now; the later ones would only make the test weaker
	w.gw.views.working.give()
	wg.Wait()
	if n := asked.Hits(); n > 2 {
		t.Errorf("the cluster was asked %d times", n)
	}
}

// A topic id that nobody has named in Metadata: a view made anew by another
// gateway must not pass as an ordinary topic.
func TestFetchByAnIDThatIsNew(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.RefreshTopics = time.Hour })
	w.topic("orders", 1)
	w.produce("orders", 20)
	if _, err := w.gw.views.Create(t.Context(), "wide", "orders", 2); err != nil {
		t.Fatal(err)
	}
	other := newViews(w.gw)
	if err := other.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.gw.cluster.DeleteTopic(t.Context(), "wide"); err != nil {
		t.Fatal(err)
	}
	again, err := other.Create(t.Context(), "wide", "orders", 2)
	if err != nil {
		t.Fatal(err)
	}
	r := w.dial(0).ask(fetchOf(13, "", 0, 20, again.BackingID)).(*kmsg.FetchResponse)
	if p := r.Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Errorf("error %d: the empty topic has answered", p.ErrorCode)
	}
	unknown := w.dial(0).ask(fetchOf(13, "", 0, 0, [16]byte{1, 2})).(*kmsg.FetchResponse)
	if code := unknown.Topics[0].Partitions[0].ErrorCode; code != kerr.UnknownTopicID.Code {
		t.Errorf("an id of no topic: error %d", code)
	}
}

// Two gateways that make, or renew, the same view at the same time.
func TestGatewaysMakeAViewTogether(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.RefreshTopics = 10 * time.Millisecond })
	second, err := Start(t.Context(), w.gw.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Shutdown(context.Background()) }()
	for round := range 5 {
		w.topic("orders", 2)
		var wg sync.WaitGroup
		for _, g := range []*Gateway{w.gw, second} {
			wg.Go(func() {
				if _, err := g.views.Create(t.Context(), "wide", "orders", 8); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		source := w.fake.TopicInfo("orders").TopicID
		until(t, func() error {
			a, b, topic := w.gw.views.Name("wide"), second.views.Name("wide"), w.fake.TopicInfo("wide")
			if a == nil || b == nil || topic == nil || a.BackingID != b.BackingID || a.BackingID != topic.TopicID || a.SourceID != source || a.Backing != 8 {
				return fmt.Errorf("%+v\n%+v\n%+v", a, b, topic)
			}
			return nil
		})
		if _, err := w.admin.DeleteTopic(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
	}
}

// A gateway that comes while another one renews a view, between the end of its definition and the next one, waits for that.
func TestViewMadeWhileAnotherGatewayRenewsIt(t *testing.T) {
	w := newWorld(t, nil)
	w.topic("orders", 2)
	v, err := w.gw.views.Create(t.Context(), "wide", "orders", 8)
	if err != nil {
		t.Fatal(err)
	}
	end := view.Tombstone("wide")
	if err := w.gw.views.defs.Append(t.Context(), end.Key, end.Value); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() {
		_, err := w.gw.views.Create(t.Context(), "wide", "orders", 8)
		made <- err
	}()
	until(t, func() error {
		if w.gw.views.Name("wide") != nil {
			return errString("the end of the definition was not read")
		}
		return nil
	})
	key, value := v.Encode()
	if err := w.gw.views.defs.Append(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
}
