package embedded

import (
	"encoding/hex"
	"errors"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxControlUses bounds what kfake remembers for a control function: one
// connection and request for each connection that ever used it.
const maxControlUses = 1000

// addControls puts the engine's functions before kfake's handlers.
func (e *Engine) addControls() {
	e.control(kmsg.DeleteRecords, func(r kmsg.Request) (kmsg.Response, bool) {
		return e.deleteRecords(r.(*kmsg.DeleteRecordsRequest)), true
	})
	e.control(kmsg.DeleteGroups, func(r kmsg.Request) (kmsg.Response, bool) {
		e.forgetGroups(r.(*kmsg.DeleteGroupsRequest))
		return nil, false
	})
	e.control(kmsg.OffsetFetch, func(r kmsg.Request) (kmsg.Response, bool) {
		return e.offsetsOfNobody(r.(*kmsg.OffsetFetchRequest))
	})
	e.control(kmsg.CreateTopics, func(r kmsg.Request) (kmsg.Response, bool) {
		return e.createTopics(r.(*kmsg.CreateTopicsRequest))
	})
	e.control(kmsg.Produce, func(r kmsg.Request) (kmsg.Response, bool) {
		nameByID(r.(*kmsg.ProduceRequest))
		return nil, false
	})
	if !e.noAutoCreate {
		e.control(kmsg.Metadata, func(r kmsg.Request) (kmsg.Response, bool) {
			e.autoCreate(r.(*kmsg.MetadataRequest))
			return nil, false
		})
	}
}

// control calls fn before kfake's handler of a request; fn answers the request
// itself when it returns true.
func (e *Engine) control(key kmsg.Key, fn func(kmsg.Request) (kmsg.Response, bool)) {
	uses := 0
	e.cluster.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
		e.cluster.KeepControl()
		if uses++; uses == maxControlUses {
			e.cluster.DropControl()
			e.control(key, fn)
		}
		resp, handled := fn(r)
		return resp, nil, handled
	})
}

// nameByID gives topics that a request names by id a name of their own. kfake
// tells its answers for unknown ids apart by name, and panics when there are
// two without.
func nameByID(req *kmsg.ProduceRequest) {
	if req.Version < 13 {
		return
	}
	for i, t := range req.Topics {
		req.Topics[i].Topic = hex.EncodeToString(t.TopicID[:])
	}
}

var legalTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// autoCreate creates the topics that a client asks for, as Kafka's
// auto.create.topics.enable=true. kfake's own way keeps such a topic in memory
// only: after a crash its acknowledged records are gone.
func (e *Engine) autoCreate(req *kmsg.MetadataRequest) {
	// Before v4 the request could not say no.
	if req.Version >= 4 && !req.AllowAutoTopicCreation {
		return
	}
	for _, t := range req.Topics {
		if t.Topic == nil || t.TopicID != [16]byte{} || e.cluster.TopicInfo(*t.Topic) != nil {
			continue
		}
		if name := *t.Topic; !legalTopic.MatchString(name) || name == "." || name == ".." {
			continue // kfake answers that there is no such topic
		}
		if err := e.cluster.CreateTopic(*t.Topic, int32(e.partitions), nil); err != nil {
			e.log.Warn("embedded engine: topic not created", "topic", *t.Topic, "error", err)
		}
	}
}

// deleteRecords answers DeleteRecords, with the new log starts on disk before
// anything is deleted.
func (e *Engine) deleteRecords(req *kmsg.DeleteRecordsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewDeleteRecordsResponseTopic()
		st.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			sp := kmsg.NewDeleteRecordsResponseTopicPartition()
			sp.Partition = rp.Partition
			start, err := e.deleteBefore(rt.Topic, rp.Partition, rp.Offset)
			sp.LowWatermark = start
			if err != nil {
				var ke *kerr.Error
				if !errors.As(err, &ke) {
					e.log.Warn("embedded engine: records not deleted", "topic", rt.Topic, "partition", rp.Partition, "error", err)
					ke = kerr.KafkaStorageError
				}
				sp.ErrorCode = ke.Code
			}
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

// deleteBefore moves the log start of a partition to the offset, -1 for the
// high watermark, and returns it. Errors are a *kerr.Error for the client or
// one of the disk.
func (e *Engine) deleteBefore(topic string, partition int32, offset int64) (int64, error) {
	ti, pi := e.cluster.TopicInfo(topic), e.cluster.PartitionInfo(topic, partition)
	if ti == nil || pi == nil {
		return -1, kerr.UnknownTopicOrPartition
	}
	if offset == -1 {
		offset = pi.HighWatermark
	}
	if offset < 0 || offset > pi.HighWatermark {
		return -1, kerr.OffsetOutOfRange
	}
	// Kafka answers a start that is already passed with the present one.
	if offset <= pi.LogStartOffset {
		return pi.LogStartOffset, nil
	}
	if err := e.state.raise(ti, partition, offset, pi.HighWatermark); err != nil {
		return -1, err
	}
	if err := e.cluster.DeleteRecords(topic, partition, offset); err != nil {
		return -1, err
	}
	return offset, nil
}

// forgetGroups writes that the offsets of deleted groups are deleted; kfake
// drops them from memory only, and after a crash a group of that name would
// go on behind records it never read.
func (e *Engine) forgetGroups(req *kmsg.DeleteGroupsRequest) {
	for _, name := range req.Groups {
		g := e.cluster.GroupInfo(name)
		if g == nil || len(g.Members) > 0 || len(g.Commits) == 0 {
			continue // refused, or nothing to forget
		}
		if err := e.folder.appendDeletedOffsets(g); err != nil {
			e.log.Warn("embedded engine: offsets of a deleted group may come back after a crash", "group", name, "error", err)
		}
	}
}

// offsetsOfNobody answers an OffsetFetch of one group that does not exist, by
// somebody who is no member: it has no offsets. kfake answers
// GROUP_ID_NOT_FOUND, which Kafka does for members only.
func (e *Engine) offsetsOfNobody(req *kmsg.OffsetFetchRequest) (kmsg.Response, bool) {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version < 8 {
		if req.Group == "" || e.cluster.GroupInfo(req.Group) != nil {
			return nil, false
		}
		for _, rt := range req.Topics {
			st := kmsg.NewOffsetFetchResponseTopic()
			st.Topic = rt.Topic
			for _, p := range rt.Partitions {
				sp := kmsg.NewOffsetFetchResponseTopicPartition()
				sp.Partition, sp.Offset, sp.LeaderEpoch, sp.Metadata = p, -1, -1, kmsg.StringPtr("")
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, true
	}
	for _, rg := range req.Groups {
		if rg.Group == "" || rg.MemberEpoch >= 0 || e.cluster.GroupInfo(rg.Group) != nil {
			return nil, false
		}
		sg := kmsg.NewOffsetFetchResponseGroup()
		sg.Group = rg.Group
		for _, rt := range rg.Topics {
			st := kmsg.NewOffsetFetchResponseGroupTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			code := int16(0)
			if req.Version >= 10 && e.cluster.TopicIDInfo(rt.TopicID) == nil {
				code = kerr.UnknownTopicID.Code
			}
			for _, p := range rt.Partitions {
				sp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				sp.Partition, sp.Offset, sp.LeaderEpoch, sp.Metadata, sp.ErrorCode = p, -1, -1, kmsg.StringPtr(""), code
				st.Partitions = append(st.Partitions, sp)
			}
			sg.Topics = append(sg.Topics, st)
		}
		resp.Groups = append(resp.Groups, sg)
	}
	return resp, len(req.Groups) > 0
}

// restoreLogStarts deletes again what was deleted before a crash.
func (e *Engine) restoreLogStarts() {
	for _, s := range e.state.all() {
		ti, pi := e.cluster.TopicInfo(s.Topic), e.cluster.PartitionInfo(s.Topic, s.Partition)
		if ti == nil || pi == nil || topicID(ti) != s.TopicID || s.Start <= pi.LogStartOffset {
			continue
		}
		if err := e.cluster.DeleteRecords(s.Topic, s.Partition, min(s.Start, pi.HighWatermark)); err != nil {
			e.log.Warn("embedded engine: log start not restored", "topic", s.Topic, "partition", s.Partition, "error", err)
		}
	}
}
