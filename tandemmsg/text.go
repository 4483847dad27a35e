package tandemmsg

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tandem-kafka/tandem/keyrange"
)

const (
	textRanges = "ranges="
	textKeys   = " keys="
	textBase   = " base="
)

// Text returns the metadata text that says c for clients that cannot send tags:
//
//	ranges=FIRST-LAST,FIRST-LAST,... keys=FIRST-LAST,... base=BASE
//
// with " keys=" only if there are Keys, and " base=" only if there is a Base. It is an error if c is not valid or has no
// Offsets. Brokers limit the text of a commit (offset.metadata.max.bytes, 4096); Tandem does not forward this one.
func (c Commit) Text() (string, error) {
	if len(c.Offsets) == 0 {
		return "", errors.New("a text has to have offset ranges: it cannot say a watermark")
	}
	if err := c.Validate(); err != nil {
		return "", err
	}
	b := append(make([]byte, 0, len(textRanges)+16*len(c.Offsets)), textRanges...)
	for i, r := range c.Offsets {
		b = appendTextRange(b, i, r.First, r.Last)
	}
	if len(c.Keys) > 0 {
		b = append(b, textKeys...)
	}
	for i, r := range c.Keys {
		b = appendTextRange(b, i, int64(r.First), int64(r.Last))
	}
	if c.Base != 0 {
		b = strconv.AppendInt(append(b, textBase...), int64(c.Base), 10)
	}
	return string(b), nil
}

func appendTextRange(b []byte, i int, first, last int64) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return strconv.AppendInt(append(strconv.AppendInt(b, first, 10), '-'), last, 10)
}

// ParseText returns what a metadata text says in the form of Commit.Text, which is the only one there is: numbers are decimal
// without sign or leading zeros, there are no other spaces, and the bounds of Commit hold. The Commit has Offsets, and its
// Watermark is -1. ours is false if the text does not begin with "ranges="; an error says that it does, but not how it goes on.
// ReadCommit decides what that means for a commit.
func ParseText(text string) (c Commit, ours bool, err error) {
	list, ours := strings.CutPrefix(text, textRanges)
	if !ours {
		return Commit{}, false, nil
	}
	c.Watermark = -1
	list, base, hasBase := strings.Cut(list, textBase)
	list, keys, hasKeys := strings.Cut(list, textKeys)
	n, err := countTextRanges("ranges", list, MaxOffsetRanges)
	if err != nil {
		return Commit{}, true, err
	}
	c.Offsets = make([]OffsetRange, 0, n)
	err = parseTextRanges("ranges", list, MaxOffset, func(first, last int64) {
		c.Offsets = append(c.Offsets, OffsetRange{first, last})
	})
	if err == nil && hasKeys {
		if n, err = countTextRanges("keys", keys, MaxKeyRanges); err != nil {
			return Commit{}, true, err
		}
		c.Keys = make(keyrange.Set, 0, n)
		err = parseTextRanges("keys", keys, maxPosition, func(first, last int64) {
			c.Keys = append(c.Keys, keyrange.Range{First: uint32(first), Last: uint32(last)})
		})
	}
	if err == nil && hasBase {
		c.Base, err = parseTextBase(base)
	}
	if err != nil {
		return Commit{}, true, err
	}
	return c, true, nil
}

func parseTextBase(s string) (int32, error) {
	n, ok := parseNumber(s)
	if !ok || n < 1 || n > math.MaxInt32 {
		return 0, within("base", fmt.Errorf("%.50q is no number from 1 to %d", s, math.MaxInt32))
	}
	return int32(n), nil
}

// countTextRanges returns how many ranges to make room for.
func countTextRanges(name, list string, most int) (int, error) {
	if list == "" {
		return 0, within(name, errors.New("the list is empty"))
	}
	n := strings.Count(list, ",") + 1
	if n > most {
		return 0, within(name, tooMany(n, most))
	}
	return min(n, (len(list)+1)/len("0-0,")), nil // more would not fit in
}

func parseTextRanges(name, list string, limit int64, add func(first, last int64)) error {
	before := int64(-1)
	for i, more := 0, true; more; i++ {
		var part string
		part, list, more = strings.Cut(list, ",")
		a, b, _ := strings.Cut(part, "-")
		first, ok1 := parseNumber(a)
		last, ok2 := parseNumber(b)
		if !ok1 || !ok2 {
			return at(name, i, fmt.Errorf("%.50q is not of the form FIRST-LAST", part))
		}
		if err := checkPair(first, last, before, limit); err != nil {
			return at(name, i, err)
		}
		add(first, last)
		before = last
	}
	return nil
}

// parseNumber parses what AppendInt makes of a number >= 0, and nothing else.
func parseNumber(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' || s[0] == '0' && len(s) > 1 { // no sign, no leading zero
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
