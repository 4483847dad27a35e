package embedded

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The Java admin client refuses an answer with a setting that has no source.
func TestCreatedTopicsSettingsHaveASource(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir(), Partitions: 3})
	cl := client(t, e)
	create := func(name string, partitions int32) kmsg.CreateTopicsResponseTopic {
		t.Helper()
		req, topic := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, -1
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = "cleanup.policy", kmsg.StringPtr("compact")
		topic.Configs = append(topic.Configs, c)
		req.Topics = append(req.Topics, topic)
		resp, err := req.RequestWith(testContext(t), cl)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Topics[0]
	}
	got := create("changelog", -1)
	info := e.cluster.TopicInfo("changelog")
	if got.ErrorCode != 0 || got.NumPartitions != 3 || got.ReplicationFactor != 1 || info == nil || got.TopicID != info.TopicID ||
		len(got.Configs) != 1 || got.Configs[0].Source != 1 || info.Configs["cleanup.policy"] == nil || *info.Configs["cleanup.policy"] != "compact" {
		t.Errorf("created: %+v, known: %+v", got, info)
	}
	if again := create("changelog", 1); again.ErrorCode != kerr.TopicAlreadyExists.Code {
		t.Errorf("created twice: %+v", again)
	}
	if bad := create("no topic", 1); bad.ErrorCode != kerr.InvalidTopicException.Code {
		t.Errorf("a bad name: %+v", bad)
	}
}
