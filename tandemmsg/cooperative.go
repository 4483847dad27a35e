package tandemmsg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cooperative is what makes a Fetch cooperative: the server chooses which offsets of its partitions the member works on, and gives them to nobody else
// until the member has committed them, leaves, or is not heard of for its session timeout.
type Cooperative struct {
	Group      string // not empty
	Generation int32  // of a group of the classic protocol; >= 0
	Member     string // not empty
	// SessionTimeout is in ms. 0: the member gives back all that it was given, and is given nothing.
	SessionTimeout int32
	// MaxRecords is how many records the member can work on, in all partitions together. -1: as many as fit in the answer. 0: the fetch only says that the
	// member is there.
	MaxRecords int32
}

// MaxSessionTimeout is the longest session timeout, in ms: an hour.
const MaxSessionTimeout = 3_600_000

func (c *Cooperative) check() error {
	switch {
	case c.Group == "":
		return errors.New("GroupId: it is empty")
	case c.Member == "":
		return errors.New("MemberId: a cooperative fetch needs one")
	case c.Generation < 0:
		return fmt.Errorf("GenerationId: %d is negative", c.Generation)
	case c.SessionTimeout < 0 || c.SessionTimeout > MaxSessionTimeout:
		return fmt.Errorf("SessionTimeout: %d is not in 0 to %d", c.SessionTimeout, MaxSessionTimeout)
	case c.MaxRecords < -1:
		return fmt.Errorf("MaxRecords: %d is below -1", c.MaxRecords)
	}
	return nil
}

// ReadCooperative returns what makes a Fetch cooperative; ok is false where it has no GroupId.
func ReadCooperative(req *kmsg.FetchRequest) (c Cooperative, ok bool, err error) {
	tags := &req.UnknownTags
	group, ok := find(tags, TagGroupID)
	if !ok {
		return c, false, nil
	}
	c.Generation, c.MaxRecords = -1, -1
	if c.Group, err = readString("GroupId", group); err != nil {
		return c, true, err
	}
	if b, ok := find(tags, TagMemberID); ok {
		if c.Member, err = readString("MemberId", b); err != nil {
			return c, true, err
		}
	}
	for _, f := range []struct {
		name string
		tag  uint32
		to   *int32
	}{{"GenerationId", TagGenerationID, &c.Generation}, {"SessionTimeout", TagSessionTimeout, &c.SessionTimeout}, {"MaxRecords", TagMaxRecords, &c.MaxRecords}} {
		b, ok := find(tags, f.tag)
		if !ok {
			continue
		}
		if len(b) != 4 {
			return c, true, within(f.name, fmt.Errorf("%d bytes, an int32 has 4", len(b)))
		}
		*f.to = int32(binary.BigEndian.Uint32(b))
	}
	return c, true, c.check()
}

// WriteCooperative makes a Fetch (v12+) cooperative. It changes nothing if c is not valid.
func WriteCooperative(req *kmsg.FetchRequest, c Cooperative) error {
	if err := c.check(); err != nil {
		return err
	}
	number := func(v, byDefault int32) []byte {
		if v == byDefault {
			return nil
		}
		return binary.BigEndian.AppendUint32(nil, uint32(v))
	}
	tags := &req.UnknownTags
	replace(tags, TagGroupID, appendString(nil, c.Group))
	replace(tags, TagGenerationID, number(c.Generation, -1))
	replace(tags, TagMemberID, appendString(nil, c.Member))
	replace(tags, TagSessionTimeout, number(c.SessionTimeout, 0))
	replace(tags, TagMaxRecords, number(c.MaxRecords, -1))
	return nil
}

// appendString appends a compact string.
func appendString(b []byte, s string) []byte { return append(appendLen(b, len(s)), s...) }

func readString(field string, b []byte) (string, error) {
	n, rest, err := readLen(b, 1)
	switch {
	case err != nil:
		return "", within(field, fmt.Errorf("as a compact string, %w", err))
	case n != len(rest):
		return "", within(field, fmt.Errorf("%d bytes follow its string of %d", len(rest)-n, n))
	case !utf8.Valid(rest):
		return "", within(field, errors.New("its string is not UTF-8"))
	}
	return string(rest), nil
}

// AcquiredRange is an offset range that a member was given in a cooperative fetch.
type AcquiredRange struct {
	OffsetRange
	Attempt int32 // how many times its records have been given to members, this one included; >= 1
}

const (
	acquiredRanges = "AcquiredRanges"
	acquiredSize   = pairSize + 4
)

// AcquiredRanges returns of an answer what the member is given with it: at most MaxAcquired, sorted, disjoint. Other records of the answer's batches are not the
// member's. Of a request it returns what the member was given and has not committed yet.
func AcquiredRanges[P HasAcquiredRanges](p P) ([]AcquiredRange, error) {
	b, ok := find(tagsOf(p), TagAcquiredRanges)
	if !ok {
		return nil, nil
	}
	n, b, err := readLen(b, acquiredSize)
	switch {
	case err != nil:
		return nil, within(acquiredRanges, err)
	case n > MaxAcquired:
		return nil, within(acquiredRanges, tooMany(n, MaxAcquired))
	case len(b) != n*acquiredSize:
		return nil, within(acquiredRanges, fmt.Errorf("%d bytes follow its array of %d ranges", len(b)-n*acquiredSize, n))
	case n == 0:
		return nil, nil
	}
	ranges, before := make([]AcquiredRange, n), int64(-1)
	for i := range ranges {
		r := &ranges[i]
		r.First, r.Last = pair(b)
		r.Attempt = int32(binary.BigEndian.Uint32(b[pairSize:]))
		if err := r.check(before); err != nil {
			return nil, at(acquiredRanges, i, err)
		}
		before, b = r.Last, b[acquiredSize:]
	}
	return ranges, nil
}

func (r *AcquiredRange) check(before int64) error {
	if r.Attempt < 1 {
		return fmt.Errorf("attempt %d is below 1", r.Attempt)
	}
	return checkPair(r.First, r.Last, before, MaxOffset)
}

// SetAcquiredRanges sets what AcquiredRanges returns; no ranges remove it. It changes nothing if they are not valid.
func SetAcquiredRanges[P HasAcquiredRanges](p P, ranges []AcquiredRange) error {
	if len(ranges) > MaxAcquired {
		return within(acquiredRanges, tooMany(len(ranges), MaxAcquired))
	}
	before := int64(-1)
	for i := range ranges {
		if err := ranges[i].check(before); err != nil {
			return at(acquiredRanges, i, err)
		}
		before = ranges[i].Last
	}
	var b []byte
	if len(ranges) > 0 {
		b = appendLen(make([]byte, 0, 5+len(ranges)*acquiredSize), len(ranges))
		for _, r := range ranges {
			b = binary.BigEndian.AppendUint32(appendPair(b, r.First, r.Last), uint32(r.Attempt))
		}
	}
	replace(tagsOf(p), TagAcquiredRanges, b)
	return nil
}
