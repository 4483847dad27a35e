package wire

import "github.com/twmb/franz-go/pkg/kbin"

// ProducePrefix is what the first bytes of a Produce request say.
type ProducePrefix struct {
	Acks int16
	// Topic or TopicID (version 13 and later) of the first topic; HasTopic is
	// false where there is none, or the bytes at hand end before it.
	Topic    string
	TopicID  [16]byte
	HasTopic bool
}

// ParseProducePrefix reads the start of a Produce request's body, which may be
// cut short anywhere behind acks. ok is false where even acks is not there.
func ParseProducePrefix(body []byte, version int16) (p ProducePrefix, ok bool) {
	r := kbin.Reader{Src: body}
	flexible := version >= 9
	if version >= 3 {
		if flexible {
			r.CompactNullableString()
		} else {
			r.NullableString()
		}
	}
	p.Acks = r.Int16()
	if !r.Ok() {
		return p, false
	}
	r.Int32() // timeout
	var topics int32
	if flexible {
		topics = r.CompactArrayLen()
	} else {
		topics = r.ArrayLen()
	}
	if !r.Ok() || topics < 1 {
		return p, true
	}
	switch {
	case version >= 13:
		p.TopicID = r.Uuid()
	case flexible:
		p.Topic = r.CompactString()
	default:
		p.Topic = r.String()
	}
	p.HasTopic = r.Ok()
	return p, true
}
