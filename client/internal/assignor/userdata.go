package assignor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// User data is what members and leader tell each other in the UserData fields of Kafka's ConsumerMemberMetadata and
// ConsumerMemberAssignment; docs/protocol.md describes it to the byte. A later version may only append fields: what follows the known
// ones is ignored. Decoders never return more than their input has bytes for.

// UserDataVersion is the version that this package writes.
const UserDataVersion int16 = 1

// MaxRanges is how many key ranges of one partition user data may have.
const MaxRanges = 1024

const (
	flagShare byte = 1 << iota
	flagHolds
)

// MemberData is what a member says when it joins. See Member for the fields.
type MemberData struct {
	Version    int16
	Share      bool
	Holds      bool
	Generation int32
	Owned      Ranges
}

// Append appends the encoding of d in version UserDataVersion. Equal data has equal bytes, so that joining again with nothing new
// does not begin a rebalance.
func (d *MemberData) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(UserDataVersion))
	var flags byte
	if d.Share {
		flags |= flagShare
	}
	if d.Holds {
		flags |= flagHolds
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(d.Generation))
	return appendRanges(b, d.Owned)
}

// DecodeMember reads a member's user data.
func DecodeMember(b []byte) (MemberData, error) {
	r := reader{b: b}
	d := MemberData{Version: r.version()}
	flags := r.take(1)
	if r.err == nil {
		d.Share, d.Holds = flags[0]&flagShare != 0, flags[0]&flagHolds != 0
	}
	d.Generation = r.int32()
	d.Owned = r.ranges()
	if r.err != nil {
		return MemberData{}, fmt.Errorf("user data of a member: %v", r.err)
	}
	return d, nil
}

// AssignmentData is what the leader tells a member beside its partitions.
type AssignmentData struct {
	Version    int16
	Generation int32  // that the assignment was made for
	Shared     Ranges // the key ranges of those partitions that the member does not get whole
	Notes      []Note
}

// Append appends the encoding of d in version UserDataVersion.
func (d *AssignmentData) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(UserDataVersion))
	b = binary.BigEndian.AppendUint32(b, uint32(d.Generation))
	b = appendRanges(b, d.Shared)
	b = appendLen(b, len(d.Notes))
	for _, n := range d.Notes {
		b = appendLen(binary.AppendUvarint(b, uint64(n.Code)), len(n.Topics))
		for _, topic := range n.Topics {
			b = appendString(b, topic)
		}
		b = binary.AppendUvarint(b, uint64(n.More))
	}
	return b
}

// DecodeAssignment reads an assignment's user data. Empty data, as an assignor that knows no key ranges writes it, means whole
// partitions, of a generation that is not known (-1).
func DecodeAssignment(b []byte) (AssignmentData, error) {
	if len(b) == 0 {
		return AssignmentData{Generation: -1}, nil
	}
	r := reader{b: b}
	d := AssignmentData{Version: r.version(), Generation: r.int32(), Shared: r.ranges()}
	for n := r.len(3); n > 0 && r.err == nil; n-- {
		note := Note{Code: NoteCode(r.uvarint())}
		for topics := r.len(1); topics > 0 && r.err == nil; topics-- {
			note.Topics = append(note.Topics, r.string())
		}
		note.More = r.uvarint()
		d.Notes = append(d.Notes, note)
	}
	if r.err != nil {
		return AssignmentData{}, fmt.Errorf("user data of an assignment: %v", r.err)
	}
	return d, nil
}

func appendLen(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)+1) }

func appendString(b []byte, s string) []byte { return append(appendLen(b, len(s)), s...) }

func appendRanges(b []byte, ranges Ranges) []byte {
	b = appendLen(b, len(ranges))
	for _, topic := range slices.Sorted(maps.Keys(ranges)) {
		b = appendString(b, topic)
		b = appendLen(b, len(ranges[topic]))
		for _, p := range slices.Sorted(maps.Keys(ranges[topic])) {
			part := ranges[topic][p]
			b = binary.AppendUvarint(b, uint64(uint32(p)))
			base := part.Base
			if part.Whole() {
				base = 0
			}
			b = binary.AppendUvarint(b, uint64(uint32(base)))
			b = appendLen(b, len(part.Keys))
			for _, r := range part.Keys {
				b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, r.First), r.Last)
			}
		}
	}
	return b
}

// reader reads fields until one is wrong; then err is set and all further fields are zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.b) {
		r.err = errors.New("it ends in the middle of a field")
	}
	if r.err != nil {
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) version() int16 {
	b := r.take(2)
	if r.err != nil {
		return 0
	}
	v := int16(binary.BigEndian.Uint16(b))
	if v < 1 {
		r.fail("version %d does not exist", v)
	}
	return v
}

func (r *reader) uint32() uint32 {
	b := r.take(4)
	if r.err != nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func (r *reader) int32() int32 { return int32(r.uint32()) }

func (r *reader) uvarint() uint32 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > binary.MaxVarintLen32 || v > math.MaxUint32 {
		r.fail("no unsigned varint of 32 bits where one belongs")
		return 0
	}
	r.b = r.b[n:]
	return uint32(v)
}

// len reads the length of a compact array or string whose elements take at least size bytes each.
func (r *reader) len(size int) int {
	n := r.uvarint()
	if r.err == nil && n == 0 {
		r.fail("null where an array or a string belongs")
	}
	if r.err != nil {
		return 0
	}
	if uint64(n-1)*uint64(size) > uint64(len(r.b)) {
		r.fail("%d elements announced, %d bytes follow", n-1, len(r.b))
		return 0
	}
	return int(n - 1)
}

func (r *reader) string() string { return string(r.take(r.len(1))) }

func (r *reader) ranges() Ranges {
	topics := r.len(2)
	if r.err != nil {
		return nil
	}
	ranges, before := Ranges{}, ""
	for i := 0; i < topics && r.err == nil; i++ {
		topic := r.string()
		if i > 0 && topic <= before {
			r.fail("topic %.100q is not after topic %.100q", topic, before)
		}
		before = topic
		n := r.len(3)
		partitions, last := map[int32]Part{}, int64(-1)
		for ; n > 0 && r.err == nil; n-- {
			p := int64(r.uvarint())
			if p <= last || p > math.MaxInt32 {
				r.fail("partition %d of topic %.100q after %d", p, topic, last)
			}
			last = p
			base := r.uvarint()
			part := Part{Keys: r.set(), Base: int32(base)}
			if part.Whole() != (base == 0) || base > math.MaxInt32 {
				r.fail("partition %d of topic %.100q has %d key ranges of the base %d", p, topic, len(part.Keys), base)
			}
			partitions[int32(p)] = part
		}
		ranges[topic] = partitions
	}
	return ranges
}

func (r *reader) set() keyrange.Set {
	n := r.len(8)
	if n > MaxRanges {
		r.fail("%d key ranges of a partition, at most %d are allowed", n, MaxRanges)
	}
	if n == 0 || r.err != nil {
		return nil
	}
	set := make(keyrange.Set, n)
	for i := range set {
		set[i] = keyrange.Range{First: r.uint32(), Last: r.uint32()}
	}
	if err := set.Validate(); err != nil {
		r.fail("%v", err)
	}
	return set
}
