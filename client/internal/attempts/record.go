package attempts

import (
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
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

// key is the key of a record of the topic.
type key struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// maxCause is how many bytes of an error are kept.
const maxCause = 1024

// encode makes a record of the topic; a nil state deletes.
func encode(group string, partition int32, id ID, s *State) (*kgo.Record, error) {
	k, err := json.Marshal(key{group, id.Topic, id.Partition, id.Offset})
	if err != nil {
		return nil, err
	}
	r := &kgo.Record{Topic: TopicName, Partition: partition, Key: k}
	if s != nil {
		of := *s
		of.Cause = of.Cause[:min(len(of.Cause), maxCause)]
		if r.Value, err = json.Marshal(of); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// decode reads a record of the topic; a nil state deletes.
func decode(r *kgo.Record) (k key, s *State, err error) {
	if err := json.Unmarshal(r.Key, &k); err != nil {
		return k, nil, fmt.Errorf("its key: %w", err)
	}
	if r.Value == nil {
		return k, nil, nil
	}
	s = &State{}
	if err := json.Unmarshal(r.Value, s); err != nil {
		return k, nil, fmt.Errorf("its value: %w", err)
	}
	if s.Attempts < 0 || s.NextAt < 0 || k.Offset < 0 || k.Partition < 0 {
		return k, nil, fmt.Errorf("a number below 0")
	}
	return k, s, nil
}
