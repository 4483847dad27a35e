package commits

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The first versions of OffsetFetch with tagged fields, and with several groups in a request.
const (
	firstTagged = 6
	grouped     = 8
)

// fetchRequest pins the version of an OffsetFetch: kgo takes the highest that it and the broker know.
type fetchRequest struct{ *kmsg.OffsetFetchRequest }

// MaxVersion is the most that kgo may choose.
func (r *fetchRequest) MaxVersion() int16 { return lastNamed }

// newFetchRequest makes a request that means the same in every version, as far as the version has the additions.
func newFetchRequest(group string, topics []kmsg.OffsetFetchRequestGroupTopic) *fetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = group, topics
	req.Groups = append(req.Groups, g)
	req.Group = group
	for _, t := range topics {
		old := kmsg.NewOffsetFetchRequestTopic()
		old.Topic, old.Partitions, old.UnknownTags = t.Topic, t.Partitions, t.UnknownTags
		req.Topics = append(req.Topics, old)
	}
	return &fetchRequest{req}
}

// read sorts an answer of any version. Of a group that does not exist it is nil: nothing was committed.
func read(resp *kmsg.OffsetFetchResponse) (answer, error) {
	a := make(answer)
	add := func(topic string, p *kmsg.OffsetFetchResponseGroupTopicPartition) {
		if a[topic] == nil {
			a[topic] = make(map[int32]*kmsg.OffsetFetchResponseGroupTopicPartition)
		}
		a[topic][p.Partition] = p
	}
	if resp.Version < grouped {
		for i := range resp.Topics {
			t := &resp.Topics[i]
			for j := range t.Partitions {
				old := &t.Partitions[j]
				p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode, p.UnknownTags = old.Partition, old.Offset, old.LeaderEpoch, old.Metadata, old.ErrorCode, old.UnknownTags
				add(t.Topic, &p)
			}
		}
		return known(a, resp.ErrorCode)
	}
	for i := range resp.Groups {
		g := &resp.Groups[i]
		if g.ErrorCode != 0 {
			return known(nil, g.ErrorCode)
		}
		for j := range g.Topics {
			t := &g.Topics[j]
			for k := range t.Partitions {
				add(t.Topic, &t.Partitions[k])
			}
		}
	}
	return known(a, resp.ErrorCode)
}

func known(a answer, code int16) (answer, error) {
	if code == kerr.GroupIDNotFound.Code {
		return nil, nil
	}
	return a, kerr.ErrorForCode(code)
}
