package gateway

import (
	"time"

	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file serves the partitions of ordinary topics for which a Fetch names key
// ranges (package tandemmsg). They come from the shared reader, as slices of
// views do, and under the same condition: the connection's own principal may
// READ the topic.

// namesKeys reports whether a Fetch names key ranges anywhere.
func namesKeys(req *kmsg.FetchRequest) bool {
	if req.Version < 12 {
		return false
	}
	if req.UnknownTags.Len() > 0 {
		if keys, err := tandemmsg.KeyRanges(req); err != nil || len(keys) > 0 {
			return true
		}
	}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if p := &req.Topics[i].Partitions[j]; p.UnknownTags.Len() > 0 {
				if keys, err := tandemmsg.KeyRanges(p); err != nil || len(keys) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// asked is what a partition asks for: its own key ranges, or the request's.
type askedKeys struct {
	keys keyrange.Set
	base int32
	err  error
}

func keysOf(req *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) (a askedKeys) {
	if a.keys, a.err = tandemmsg.KeyRanges(p); a.err != nil {
		return a
	}
	if len(a.keys) == 0 {
		if a.keys, a.err = tandemmsg.KeyRanges(req); a.err != nil {
			return a
		}
	}
	if a.base, a.err = tandemmsg.KeyAxisBase(p); a.err == nil && a.base == 0 {
		a.base, a.err = tandemmsg.KeyAxisBase(req)
	}
	return a
}

// planKeys divides the partitions of an ordinary topic into those with key
// ranges, which it adds to the plan, and the others, which it returns.
func (c *conn) planKeys(req *kmsg.FetchRequest, ti int, parts *[]fetchPart, slices *[]slicecache.SliceRequest) (plain []kmsg.FetchRequestTopicPartition, err error) {
	t := &req.Topics[ti]
	var name string
	var code int16
	var source slicecache.Source
	var partitions int32
	looked := false
	member, named, bad := tandemmsg.FetchMember(req)
	for pi := range t.Partitions {
		p := &t.Partitions[pi]
		a := keysOf(req, p)
		if a.err == nil && len(a.keys) == 0 {
			plain = append(plain, *p)
			continue
		}
		part := fetchPart{topic: ti, partition: pi, slice: -1, offset: p.FetchOffset, keys: true}
		if a.err == nil {
			a.err = bad
		}
		if a.err != nil {
			if c.gw.often.now("key ranges", time.Minute) {
				c.log.Warn("a fetch with key ranges was refused", "cause", a.err)
			}
			part.code = kerr.InvalidRequest.Code
			*parts = append(*parts, part)
			continue
		}
		if named && c.gw.generations.over(member.Group, member.Generation) {
			part.code = kerr.IllegalGeneration.Code
			*parts = append(*parts, part)
			continue
		}
		if !looked {
			looked = true
			if name, source, partitions, code, err = c.keySource(t, c.gw.cfg.keyRangeFetch); err != nil {
				return nil, err
			}
			if code == 0 {
				c.gw.isolations.note(c.isolationKey(name), req.IsolationLevel == 1)
			}
		}
		switch part.code = code; {
		case code != 0:
		case p.Partition < 0 || p.Partition >= partitions:
			part.code = kerr.UnknownTopicOrPartition.Code
		default:
			part.slice = len(*slices)
			source.Partition = p.Partition
			if a.base == 0 {
				a.base = partitions
			}
			*slices = append(*slices, slicecache.SliceRequest{
				Source: source, Slicing: split.Slicing{Base: a.base}, Keys: a.keys, IndexOnly: c.gw.cfg.hashingLoad(name) == LoadKey,
				Offset: p.FetchOffset, MaxBytes: p.PartitionMaxBytes,
			})
		}
		*parts = append(*parts, part)
	}
	return plain, nil
}

// keySource finds the ordinary topic of a fetch that is answered by the gateway;
// code says why it may not be read so.
func (c *conn) keySource(t *kmsg.FetchRequestTopic, allowed func(string) bool) (name string, source slicecache.Source, partitions int32, code int16, err error) {
	name = t.Topic
	unknown := kerr.UnknownTopicOrPartition.Code
	if name == "" {
		unknown = kerr.UnknownTopicID.Code
		if name, err = c.gw.facts.nameOf(c.ctx, t.TopicID); err != nil {
			return "", source, 0, kerr.LeaderNotAvailable.Code, nil
		}
		if name == "" {
			return "", source, 0, unknown, nil
		}
	}
	// Asked before it is said whether the topic exists: who may not know is not told.
	if code, err = c.mayRead(name); err != nil || code != 0 {
		return name, source, 0, code, err
	}
	topic, found, err := c.gw.facts.source(c.ctx, name)
	switch {
	case err != nil:
		return name, source, 0, kerr.LeaderNotAvailable.Code, nil
	case !found || t.Topic == "" && topic.ID != t.TopicID:
		return name, source, 0, unknown, nil
	case !allowed(name):
		return name, source, 0, kerr.PolicyViolation.Code, nil
	}
	return name, slicecache.Source{Topic: name, TopicID: topic.ID}, topic.Partitions, 0, nil
}
