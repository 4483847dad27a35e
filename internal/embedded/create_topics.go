package embedded

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dynamicTopicConfig is the source of a setting that was made for its topic
// (Kafka's DYNAMIC_TOPIC_CONFIG).
const dynamicTopicConfig = 1

// createTopics answers CreateTopics v5 and later for topics with settings.
// kfake answers them without a source, upon which the Java admin client fails
// ("id should be positive, id: -1"), and with it every Kafka Streams
// application that has a store. It reports false for what kfake answers itself.
func (e *Engine) createTopics(req *kmsg.CreateTopicsRequest) (kmsg.Response, bool) {
	settings, names := false, map[string]bool{}
	for _, t := range req.Topics {
		if len(t.ReplicaAssignment) > 0 || t.ReplicationFactor > 1 || t.ReplicationFactor == 0 || t.NumPartitions == 0 || names[t.Topic] {
			return nil, false
		}
		names[t.Topic] = true
		settings = settings || len(t.Configs) > 0
	}
	if req.Version < 5 || req.ValidateOnly || !settings {
		return nil, false
	}
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	for _, t := range req.Topics {
		resp.Topics = append(resp.Topics, e.createTopic(t))
	}
	return resp, true
}

func (e *Engine) createTopic(t kmsg.CreateTopicsRequestTopic) kmsg.CreateTopicsResponseTopic {
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic = t.Topic
	configs := make(map[string]string, len(t.Configs))
	for _, c := range t.Configs {
		if c.Value == nil {
			continue // the default
		}
		configs[c.Name] = *c.Value
		set := kmsg.NewCreateTopicsResponseTopicConfig()
		set.Name, set.Value, set.Source = c.Name, c.Value, dynamicTopicConfig
		out.Configs = append(out.Configs, set)
	}
	err := kerr.InvalidTopicException
	if legalTopic.MatchString(t.Topic) && t.Topic != "." && t.Topic != ".." {
		err = nil
		if failure := e.cluster.CreateTopic(t.Topic, t.NumPartitions, configs); failure != nil && !errors.As(failure, &err) {
			e.log.Warn("embedded engine: topic not created", "topic", t.Topic, "error", failure)
			err = kerr.UnknownServerError
		}
	}
	if err != nil {
		out.ErrorCode, out.Configs = err.Code, nil
		return out
	}
	out.NumPartitions, out.ReplicationFactor = t.NumPartitions, 1
	if out.NumPartitions < 0 {
		out.NumPartitions = int32(e.partitions)
	}
	if info := e.cluster.TopicInfo(t.Topic); info != nil {
		out.TopicID = info.TopicID
	}
	return out
}
