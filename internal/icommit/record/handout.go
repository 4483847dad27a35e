package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tandem-kafka/tandem/internal/acquire"
)

// Handout is a record of the topic that is about who works on what, in a cooperative fetch.
type Handout struct {
	Group     string
	Topic     string // the source topic
	Partition int32  // of the source topic
	Entry     acquire.Entry
	TopicID   [16]byte // of the source topic, zero where the cluster has no ids; zero in a deletion
	// Position is the record's offset in the log, which its bytes do not say.
	Position int64
}

// handoutVersion is the version of their keys.
const handoutVersion = 1

// IsHandout reports whether a key is that of a Handout.
func IsHandout(key []byte) bool {
	return len(key) >= 2 && binary.BigEndian.Uint16(key) == handoutVersion
}

// Check says what makes h impossible to encode.
func (h *Handout) Check() error {
	if h.Partition < 0 {
		return fmt.Errorf("partition %d", h.Partition)
	}
	return h.Entry.Check()
}

// AppendHandoutKey appends the key of a Handout that passes Check.
func AppendHandoutKey(dst []byte, h *Handout) []byte {
	e := &h.Entry
	dst = binary.BigEndian.AppendUint16(dst, handoutVersion)
	dst = appendName(dst, h.Group)
	dst = appendName(dst, h.Topic)
	dst = binary.AppendUvarint(dst, uint64(h.Partition))
	dst = binary.AppendUvarint(dst, uint64(e.Era))
	dst = append(dst, byte(e.Kind))
	dst = binary.BigEndian.AppendUint64(dst, e.ID)
	if e.Kind == acquire.Session {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(e.First))
	return binary.AppendUvarint(dst, uint64(e.Last-e.First))
}

// AppendHandoutValue appends the value of a Handout that passes Check and is no deletion: a deletion's value is null.
func AppendHandoutValue(dst []byte, h *Handout) []byte {
	e := &h.Entry
	dst = binary.BigEndian.AppendUint16(dst, valueVersion)
	dst = append(dst, h.TopicID[:]...)
	dst = appendName(dst, e.Member)
	dst = binary.AppendUvarint(dst, uint64(e.Timeout))
	if e.Kind == acquire.Session {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(e.Attempt))
	dst = binary.AppendUvarint(dst, uint64(len(e.Over)))
	for _, o := range e.Over {
		dst = appendName(dst, o.Member)
		dst = binary.AppendUvarint(dst, uint64(o.Position))
	}
	return dst
}

// DecodeHandout decodes a Handout; a nil value makes it a deletion. Errors wrap ErrNewer or ErrDamaged.
func (d *Decoder) DecodeHandout(key, value []byte) (h Handout, err error) {
	e := &h.Entry
	c := cursor{b: key}
	c.uint16()
	group, topic := c.name(), c.name()
	partition, era := c.uvarint(math.MaxInt32), c.uvarint(math.MaxInt64)
	kind := c.take(1)
	id := c.take(8)
	if c.bad || kind[0] > byte(acquire.Session) {
		return h, fmt.Errorf("%w: its key is %x", ErrDamaged, shorten(key))
	}
	e.Kind, e.Era, e.ID = acquire.Kind(kind[0]), int64(era), binary.BigEndian.Uint64(id)
	if e.Kind == acquire.Acquisition {
		first := c.uvarint(acquire.MaxOffset)
		span := c.uvarint(acquire.MaxOffset - first)
		e.First, e.Last = int64(first), int64(first+span)
	}
	if c.bad || len(c.b) > 0 {
		return h, fmt.Errorf("%w: its key is %x", ErrDamaged, shorten(key))
	}
	h.Group, h.Topic, h.Partition = d.intern(group), d.intern(topic), int32(partition)
	if e.Delete = value == nil; e.Delete {
		return h, nil
	}
	return h, d.handoutValue(value, &h)
}

func (d *Decoder) handoutValue(value []byte, h *Handout) error {
	e := &h.Entry
	c, err := versionedValue(value)
	if err != nil {
		return err
	}
	copy(h.TopicID[:], c.take(len(h.TopicID)))
	member, timeout := c.name(), c.uvarint(math.MaxInt32)
	e.Member, e.Timeout = d.intern(member), int32(timeout)
	if e.Kind == acquire.Acquisition {
		e.Attempt = int32(c.uvarint(math.MaxInt32))
		for n := c.uvarint(uint64(len(c.b))); n > 0 && !c.bad; n-- {
			member, position := c.name(), c.uvarint(math.MaxInt64)
			e.Over = append(e.Over, acquire.Over{Member: d.intern(member), Position: int64(position)})
		}
	}
	if c.bad || len(c.b) > 0 || e.Check() != nil {
		return fmt.Errorf("%w: its value is %x", ErrDamaged, shorten(value))
	}
	return nil
}
