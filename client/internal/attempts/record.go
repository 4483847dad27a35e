package attempts

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/keyrange"
)

// TopicName is the topic's name.
const TopicName = "__tandem_retries"

// ID names a record of a group.
type ID struct {
	Topic     string
	Partition int32
	Offset    int64
}

// State is what is kept of a record.
type State struct {
	Attempts int32  `json:"attempts"`         // that ended, or began where each might end the process
	NextAt   int64  `json:"nextAt,omitempty"` // when the next one may begin, in ns since the epoch; 0: at once
	Final    bool   `json:"final,omitempty"`  // there is no further one
	Cause    string `json:"cause,omitempty"`  // the last one's error
	Hash     uint32 `json:"hash,omitempty"`   // murmur2 of the record's key
	Keyed    bool   `json:"keyed,omitempty"`  // it has a key
	TopicID  string `json:"topicId,omitempty"`
}

// MarkID names what one process says of a partition.
type MarkID struct {
	Topic     string
	Partition int32
	Session   string
}

// Mark says that a process works on key ranges of a partition. It is there from before it begins until it has ended in order: who is
// given key ranges on which a mark of another process lies, knows that it crashed.
type Mark struct {
	Keys    keyrange.Set `json:"keys"`
	Base    int32        `json:"base"`
	TopicID string       `json:"topicId,omitempty"`
}

// key is the key of a record of the topic. With a session it is a Mark's.
type key struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset,omitempty"`
	Session   string `json:"session,omitempty"`
}

// maxCause is how many bytes of an error are kept.
const maxCause = 1024

// encode makes a record of the topic; a nil value deletes.
func encode[V State | Mark](partition int32, k key, value *V) (*kgo.Record, error) {
	r := &kgo.Record{Topic: TopicName, Partition: partition}
	var err error
	if r.Key, err = json.Marshal(k); err != nil {
		return nil, err
	}
	if value != nil {
		if r.Value, err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// decode reads a record of the topic. It has neither a state nor a mark if it deletes.
func decode(r *kgo.Record) (k key, s *State, m *Mark, err error) {
	if err := json.Unmarshal(r.Key, &k); err != nil {
		return k, nil, nil, fmt.Errorf("its key: %w", err)
	}
	switch {
	case k.Offset < 0 || k.Partition < 0:
		return k, nil, nil, errNegative
	case r.Value == nil:
		return k, nil, nil, nil
	case k.Session != "":
		m = &Mark{}
		if err = json.Unmarshal(r.Value, m); err == nil {
			err = m.Keys.Validate()
		}
	default:
		s = &State{}
		if err = json.Unmarshal(r.Value, s); err == nil && (s.Attempts < 0 || s.NextAt < 0) {
			err = errNegative
		}
	}
	if err != nil {
		return k, nil, nil, fmt.Errorf("its value: %w", err)
	}
	return k, s, m, nil
}

var errNegative = errors.New("a number below 0")
