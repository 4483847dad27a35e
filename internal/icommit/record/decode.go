package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tandem-kafka/tandem/keyrange"
)

// The reasons why Decode refuses a record.
var (
	// ErrForeign says that the key is none of Tandem's.
	ErrForeign = errors.New("foreign record")
	// ErrNewer says that a later release of Tandem wrote the record.
	ErrNewer = errors.New("record of a later version")
	// ErrDamaged says that the record is of a known version and does not parse.
	ErrDamaged = errors.New("damaged record")
)

// Decoder decodes records. It keeps the names it saw last, so that decoding does not allocate when they come again. It is used by one
// goroutine at a time.
type Decoder struct{ names map[string]string }

// maxNames bounds the names that a Decoder keeps.
const maxNames = 1024

// Decode decodes a record; a nil value makes it a deletion. Errors wrap ErrForeign, ErrNewer or ErrDamaged.
// The result does not refer to key and value.
func (d *Decoder) Decode(key, value []byte) (Record, error) {
	r, err := d.key(key)
	if err != nil {
		return Record{}, err
	}
	if value == nil {
		r.Delete = true
		return r, nil
	}
	if err := decodeValue(value, &r); err != nil {
		return Record{}, err
	}
	return r, nil
}

func (d *Decoder) key(key []byte) (r Record, err error) {
	c := cursor{b: key}
	switch version := int16(c.uint16()); {
	case c.bad || version < 0 || version > lastReserved:
		return r, fmt.Errorf("%w: its key is %.40q", ErrForeign, key)
	case version != keyVersion:
		return r, fmt.Errorf("%w: its key has version %d, up to %d is known", ErrNewer, version, keyVersion)
	}
	group, topic := c.name(), c.name()
	partition, base, era := c.uvarint(math.MaxInt32), c.uvarint(math.MaxInt32), c.uvarint(math.MaxInt64)
	r.Fact.Keys.First, r.Fact.Keys.Last = c.uint32(), c.uint32()
	first := c.uvarint(math.MaxInt64 - 1)
	span := c.uvarint(math.MaxInt64 - 1 - first)
	if c.bad || len(c.b) > 0 || r.Fact.Keys.First > r.Fact.Keys.Last || base == 0 && r.Fact.Keys != keyrange.Full {
		return r, fmt.Errorf("%w: its key is %x", ErrDamaged, shorten(key))
	}
	r.Group, r.Topic, r.Partition, r.Base = d.intern(group), d.intern(topic), int32(partition), int32(base)
	r.Era = int64(era)
	r.Fact.First, r.Fact.Last = int64(first), int64(first+span)
	return r, nil
}

// versionedValue begins to read a value whose version is known.
func versionedValue(value []byte) (cursor, error) {
	c := cursor{b: value}
	switch version := int16(c.uint16()); {
	case c.bad || version < 0 || version > lastReserved:
		return c, fmt.Errorf("%w: its value is %x", ErrDamaged, shorten(value))
	case version != valueVersion:
		return c, fmt.Errorf("%w: its value has version %d, up to %d is known", ErrNewer, version, valueVersion)
	}
	return c, nil
}

func decodeValue(value []byte, r *Record) error {
	c, err := versionedValue(value)
	if err != nil {
		return err
	}
	copy(r.TopicID[:], c.take(len(r.TopicID)))
	if c.bad || len(c.b) > 0 {
		return fmt.Errorf("%w: its value is %x", ErrDamaged, shorten(value))
	}
	return nil
}

func (d *Decoder) intern(name []byte) string {
	if s, ok := d.names[string(name)]; ok {
		return s
	}
	if d.names == nil || len(d.names) >= maxNames {
		d.names = make(map[string]string)
	}
	s := string(name)
	d.names[s] = s
	return s
}

// shorten keeps an error's text readable.
func shorten(b []byte) []byte { return b[:min(len(b), 64)] }

// cursor reads from b; bad says that something did not parse, and all later reads give zero.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n > len(c.b) {
		c.bad, c.b = true, nil
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) uint16() uint16 {
	if b := c.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// uvarint reads one that is at most limit and has no byte too many: with two encodings compaction would take one fact for two.
func (c *cursor) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 || v > limit || n > 1 && c.b[n-1] == 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) name() []byte { return c.take(int(c.uvarint(math.MaxInt32))) }
