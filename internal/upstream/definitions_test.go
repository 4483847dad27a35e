package upstream

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// replay catches up and returns what was applied, "reset" included.
func replay(t *testing.T, d *Definitions) (out []string) {
	t.Helper()
	err := d.CatchUp(t.Context(), func() { out = append(out, "reset") }, func(r Record) {
		out = append(out, fmt.Sprintf("%d:%s=%s", r.Offset, r.Key, r.Value))
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("applied %q, want %q", got, want)
	}
}

func appendTo(t *testing.T, d *Definitions, key, value string) {
	t.Helper()
	var v []byte
	if value != "" {
		v = []byte(value)
	}
	if err := d.Append(t.Context(), []byte(key), v); err != nil {
		t.Fatal(err)
	}
}

func TestDefinitionsCatchUp(t *testing.T) {
	c := newCluster(t)
	d, other := c.Definitions(), c.Definitions()
	want(t, replay(t, d)) // there is no topic yet
	appendTo(t, d, "a", "1")
	appendTo(t, other, "b", "2")
	appendTo(t, d, "a", "")
	want(t, replay(t, d), "0:a=1", "1:b=2", "2:a=")
	want(t, replay(t, d))
	appendTo(t, other, "c", "3")
	want(t, replay(t, d), "3:c=3")
	want(t, replay(t, other), "0:a=1", "1:b=2", "2:a=", "3:c=3")
}

// Whoever made the topic: every gateway must be able to rely on it.
func TestDefinitionsTopicSettings(t *testing.T) {
	c := newCluster(t)
	appendTo(t, c.Definitions(), "a", "1")
	configs, err := c.user.DescribeTopicConfigs(t.Context(), DefinitionsTopic)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, k := range configs[0].Configs {
		got[k.Key] = k.MaybeValue()
	}
	for k, v := range map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000", "min.insync.replicas": "2"} {
		if got[k] != v {
			t.Errorf("%s is %q, want %s", k, got[k], v)
		}
	}
	topics, err := c.Topics(t.Context(), DefinitionsTopic)
	if err != nil {
		t.Fatal(err)
	}
	if topic := topics[DefinitionsTopic]; topic.ReplicationFactor != 3 || topic.Partitions != 1 {
		t.Errorf("%+v", topic)
	}
}

func TestDefinitionsDeletedAndMadeAnew(t *testing.T) {
	c := newCluster(t)
	d := c.Definitions()
	appendTo(t, d, "a", "1")
	want(t, replay(t, d), "0:a=1")
	if _, err := c.user.DeleteTopic(t.Context(), DefinitionsTopic); err != nil {
		t.Fatal(err)
	}
	want(t, replay(t, d), "reset")
	want(t, replay(t, d))
	appendTo(t, d, "b", "2") // with the same producer, which knew the old topic
	want(t, replay(t, d), "0:b=2")
	if _, err := c.user.DeleteTopic(t.Context(), DefinitionsTopic); err != nil {
		t.Fatal(err)
	}
	appendTo(t, c.Definitions(), "c", "3") // made anew between two looks
	want(t, replay(t, d), "reset", "0:c=3")
}

// A gateway that may not look must not believe that there are no views.
func TestDefinitionsThatMayNotBeDescribed(t *testing.T) {
	c := newCluster(t)
	d := c.Definitions()
	appendTo(t, d, "a", "1")
	want(t, replay(t, d), "0:a=1")
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: DefinitionsTopic, Err: kerr.TopicAuthorizationFailed, Count: 1})
	err := d.CatchUp(t.Context(), func() { t.Error("reset") }, func(Record) { t.Error("a record") })
	if err == nil {
		t.Fatal("no error")
	}
	want(t, replay(t, d))
}
