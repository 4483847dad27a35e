package view

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Definition says what a view shows. It never changes while the view lives; only TopicID may be learned later.
type Definition struct {
	Name       string   // of the view and of its backing topic
	Source     string   // name of the source topic
	SourceID   [16]byte // topic id of the source; zero: the cluster has no topic ids
	TopicID    [16]byte // topic id of the backing topic; zero: not known yet
	Base       int32    // partitions of the source when the view was made (P0), >= 1
	Partitions int32    // virtual partitions when the view was made (V = Base*K), at most MaxPartitions
	K          int32    // slices of each source partition, a power of two >= 1
	CreatedMs  int64    // when it was made, ms since 1970
}

// MaxPartitions is the largest number of virtual partitions of a new view: the most partitions a KRaft controller
// creates in one request.
const MaxPartitions = 10_000

// Same reports whether d and other are the same view: when each was made, and a TopicID only one of them knows, do
// not matter.
func (d Definition) Same(other Definition) bool {
	if d.TopicID == ([16]byte{}) || other.TopicID == ([16]byte{}) {
		d.TopicID, other.TopicID = [16]byte{}, [16]byte{}
	}
	d.CreatedMs, other.CreatedMs = 0, 0
	return d == other
}

// Validate returns an error when d contradicts itself.
func (d Definition) Validate() error {
	if err := ValidTopic(d.Name); err != nil {
		return fmt.Errorf("name of the view: %w", err)
	}
	if err := ValidTopic(d.Source); err != nil {
		return fmt.Errorf("source of view %s: %w", d.Name, err)
	}
	switch {
	case d.Name == d.Source:
		return fmt.Errorf("view %s has itself as its source", d.Name)
	case d.Base < 1 || d.Partitions < 1 || d.Partitions > MaxPartitions:
		return fmt.Errorf("view %s: %d virtual partitions over %d: need at least 1 and at most %d", d.Name, d.Partitions, d.Base, MaxPartitions)
	case d.K < 1 || d.K&(d.K-1) != 0:
		return fmt.Errorf("view %s: %d slices: not a power of two", d.Name, d.K)
	case int64(d.Base)*int64(d.K) != int64(d.Partitions):
		return fmt.Errorf("view %s: %d virtual partitions are not %d times %d", d.Name, d.Partitions, d.Base, d.K)
	case d.CreatedMs < 0:
		return fmt.Errorf("view %s: creation time %d is negative", d.Name, d.CreatedMs)
	}
	return nil
}

// definitionJSON is a Definition in the definitions topic. The ids are in Kafka's own text form (base64, URL alphabet).
// Pointers tell a missing field from a zero.
type definitionJSON struct {
	Version    *int    `json:"version"`
	Source     *string `json:"source"`
	SourceID   *string `json:"sourceId"`
	TopicID    string  `json:"topicId,omitempty"`
	Base       *int32  `json:"base"`
	Partitions *int32  `json:"partitions"`
	K          *int32  `json:"slices"`
	CreatedMs  *int64  `json:"createdMs"`
	// Repeat marks a record that a gateway wrote to put the winner's definition last again (see Log).
	Repeat bool `json:"repeat,omitempty"`
}

const definitionVersion = 1

func (d Definition) encode(repeat bool) []byte {
	version, sourceID := definitionVersion, encodeID(d.SourceID)
	j := definitionJSON{Version: &version, Source: &d.Source, SourceID: &sourceID, Base: &d.Base,
		Partitions: &d.Partitions, K: &d.K, CreatedMs: &d.CreatedMs, Repeat: repeat}
	if d.TopicID != ([16]byte{}) {
		j.TopicID = encodeID(d.TopicID)
	}
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // strings and numbers only: cannot fail
	}
	return b
}

// Encode returns the record that defines d: what to append to the definitions topic.
func (d Definition) Encode() (key, value []byte) { return definitionKey(d.Name), d.encode(false) }

// Decode reads the record of a definition. Unknown and missing fields are errors, as is a definition that Validate
// refuses.
func Decode(key, value []byte) (Definition, error) {
	name, ok := definitionName(key)
	if !ok {
		return Definition{}, fmt.Errorf("key %.100q is not that of a definition", key)
	}
	d, _, err := decode(name, value)
	return d, err
}

func decode(name string, value []byte) (d Definition, repeat bool, err error) {
	var j definitionJSON
	if err := strictJSON(value, &j); err != nil {
		return d, false, fmt.Errorf("definition of view %.300q: %w", name, err)
	}
	if j.Version != nil && *j.Version != definitionVersion {
		return d, false, fmt.Errorf("definition of view %.300q has version %d: this tandem knows %d; upgrade it", name, *j.Version, definitionVersion)
	}
	if j.Version == nil || j.Source == nil || j.SourceID == nil || j.Base == nil || j.Partitions == nil || j.K == nil || j.CreatedMs == nil {
		return d, false, fmt.Errorf("definition of view %.300q: a field is missing", name)
	}
	d = Definition{Name: name, Source: *j.Source, Base: *j.Base, Partitions: *j.Partitions, K: *j.K, CreatedMs: *j.CreatedMs}
	if d.SourceID, err = decodeID(*j.SourceID); err != nil {
		return Definition{}, false, fmt.Errorf("definition of view %.300q: sourceId: %w", name, err)
	}
	if j.TopicID != "" {
		if d.TopicID, err = decodeID(j.TopicID); err != nil {
			return Definition{}, false, fmt.Errorf("definition of view %.300q: topicId: %w", name, err)
		}
	}
	if err := d.Validate(); err != nil {
		return Definition{}, false, err
	}
	return d, j.Repeat, nil
}

// strictJSON decodes exactly one JSON value without unknown fields.
func strictJSON(b []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

func encodeID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func decodeID(s string) (id [16]byte, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%.40q is not a topic id", s)
	}
	return [16]byte(b), nil
}
