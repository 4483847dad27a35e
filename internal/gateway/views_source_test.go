package gateway

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// askFor asks for a topic's metadata, once.
func (w *world) askFor(name string, version int16, create bool) kmsg.MetadataResponseTopic {
	w.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = version, create
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, rt)
	resp := w.dial(anyBroker).ask(req).(*kmsg.MetadataResponse)
	if len(resp.Topics) != 1 {
		w.t.Fatalf("%s: %d topics answered", name, len(resp.Topics))
	}
	return resp.Topics[0]
}

// A client that asks for a view whose source does not exist is answered as for any topic that does not exist, the log says so once, and the
// client gets the view when it asks after the source was made.
func TestViewOfASourceThatComesLater(t *testing.T) {
	w := newWorld(t, nil, kfake.AllowAutoTopicCreation()) // the clients here do not ask for that
	for range 3 {
		if got := w.askFor("orders.view8", 12, false); got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
			t.Fatalf("before the source is there: %v", kerr.ErrorForCode(got.ErrorCode))
		}
	}
	if n := strings.Count(w.log.String(), `msg="a client asks for a view whose source does not exist" view=orders.view8 source=orders cure=`); n != 1 {
		t.Errorf("the log says %d times that the source is missing", n)
	}
	w.topic("orders", 2)
	if got := w.askFor("orders.view8", 12, false); got.ErrorCode != 0 || len(got.Partitions) != 8 {
		t.Errorf("with the source: %+v", got)
	}
}

// Where the cluster makes topics that clients ask for, asking for a view makes its source, as asking for the source would: if the request
// allows it, and only where the view could be made.
func TestAskingForAViewMakesItsSource(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.AutoCreateMax = 16
		c.Views = map[string]ViewConfig{"configured.view4": {Source: "configured", Partitions: 4}}
	}, kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(2))
	for _, name := range []string{"configured.view4", "large.view32", "chain.view2.view4"} {
		if got := w.askFor(name, 12, true); got.ErrorCode == 0 {
			t.Errorf("%s was made", name)
		}
	}
	if got := w.askFor("refused.view4", 12, false); got.ErrorCode == 0 {
		t.Error("refused.view4 was made")
	}
	for name, version := range map[string]int16{"orders.view8": 12, "old.view4": 1} { // before version 4 every request allows it
		until(t, func() error { return kerr.ErrorForCode(w.askFor(name, version, true).ErrorCode) })
	}
	topics, err := w.admin.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range topics.Names() {
		if !strings.HasPrefix(name, "__") {
			names = append(names, name)
		}
	}
	if want := []string{"old", "old.view4", "orders", "orders.view8"}; !slices.Equal(names, want) {
		t.Errorf("there are the topics %q, want %q", names, want)
	}
	if n := len(topics["orders"].Partitions); n != 2 {
		t.Errorf("the source has %d partitions, want the cluster's default", n)
	}
}
