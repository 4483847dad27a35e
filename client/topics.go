package client

import (
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// nameMissing says in the log which topics are not there. They may be made later, so that is no error. But until then a client without its topic waits, and one without its dead-letter topic
// finds out with the first record that it gives up.
func (s *session) nameMissing() {
	topics := s.cfg.topics
	if s.cfg.standalone() {
		topics = slices.Sorted(maps.Keys(s.cfg.assign))
	}
	letters := s.cfg.outcome == onDeadLetter
	if letters {
		topics = append(slices.Clone(topics), s.cfg.deadLetter)
	}
	req := kmsg.NewPtrMetadataRequest() // by which views are made, and no other topics
	for _, topic := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &topic
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(s.ctx, s.data[0])
	if err != nil {
		s.log.Debug("the topics cannot be looked up", "error", err)
		return
	}
	for _, t := range resp.Topics {
		letter := letters && t.Topic != nil && *t.Topic == s.cfg.deadLetter
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.UnknownTopicOrPartition) && letter:
			s.log.Warn("the dead-letter topic does not exist yet: what is given up is tried again until it does; create it, or correct its name", "topic", s.cfg.deadLetter)
		case errors.Is(err, kerr.UnknownTopicOrPartition) && t.Topic != nil:
			s.log.Warn("the topic does not exist yet; waiting for it: create it, or correct its name", "topic", *t.Topic)
		case errors.Is(err, kerr.TopicAuthorizationFailed) && letter:
			s.log.Warn("what is given up cannot be written to the dead-letter topic: its user needs DESCRIBE and WRITE on it", "topic", s.cfg.deadLetter)
		}
	}
}
