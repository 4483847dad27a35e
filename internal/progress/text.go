package progress

import (
	"math"
	"strconv"
	"strings"
)

// The texts. All end in the same words; d is left out when it is 0, and n when both are:
//
//	tandem:1:ERA[.n[+d]]:OFFSET      the whole text of a source row; n is the checksum of the rewinds that its writer
//	                                 knew; below the base, OFFSET+d, all is done that no rewind has set back
//	TEXT|tandem:1:ERA[.n[+d][i]]:OFFSET a view row whose client wrote TEXT; n is the step at which it counts, n-d the
//	                                 step below which it voids other rows; i: it only keeps to what another row voids
//	!tandem:1:ERA[.n[+d][i]]:OFFSET  a view row whose client wrote null
//
// The ':' keeps Kafka Streams from taking the source row's text for its own (base64). The repeated offset tells a text
// that another tool copied to another offset: that row is not ours.
const (
	words    = "tandem:1:"
	textMark = '|'
	nullMark = '!'
)

// MaxSuffix is the most bytes that Text adds to a client's text.
const MaxSuffix = 1 + len(words) + 19 + 1 + 20 + 1 + 19 + 1 + 19 // as large as its numbers can get; in practice about 30

// highest is the highest era, and step of a view row, that is taken for ours: one can still be added to it.
const highest = 1 << 62

// tag is what a text of ours says.
type tag struct {
	era int64  // >= 0
	n   uint64 // step of a view row, checksum of a source row
	d   int64  // >= 0; at most n in a view row
	// inherits: the row voids what another one does that was there before; false if n is 0, and in a source row
	inherits bool
}

// voids is the step below which a view row makes others void.
func (t tag) voids() uint64 { return t.n - uint64(t.d) }

func (t tag) append(b []byte, offset int64) []byte {
	b = append(b, words...)
	b = strconv.AppendInt(b, t.era, 10)
	if t.n != 0 || t.d != 0 {
		b = append(b, '.')
		b = strconv.AppendUint(b, t.n, 10)
		if t.d != 0 {
			b = append(b, '+')
			b = strconv.AppendInt(b, t.d, 10)
		}
		if t.inherits {
			b = append(b, 'i')
		}
	}
	b = append(b, ':')
	return strconv.AppendInt(b, offset, 10)
}

// parseTag reads exactly what append writes for this offset.
func parseTag(s string, offset int64) (t tag, ok bool) {
	rest, ok := strings.CutPrefix(s, words)
	if !ok || offset < 0 {
		return tag{}, false
	}
	head, last, ok := strings.Cut(rest, ":")
	if !ok || last != strconv.FormatInt(offset, 10) {
		return tag{}, false
	}
	era, n, dotted := strings.Cut(head, ".")
	var err error
	if t.era, err = strconv.ParseInt(era, 10, 64); err != nil || t.era < 0 || t.era > highest || strconv.FormatInt(t.era, 10) != era {
		return tag{}, false
	}
	if dotted {
		n, t.inherits = strings.CutSuffix(n, "i")
		n, d, far := strings.Cut(n, "+")
		if far {
			if t.d, err = strconv.ParseInt(d, 10, 64); err != nil || t.d <= 0 || strconv.FormatInt(t.d, 10) != d {
				return tag{}, false
			}
		}
		if t.n, err = strconv.ParseUint(n, 10, 64); err != nil || t.n == 0 && t.d == 0 || strconv.FormatUint(t.n, 10) != n {
			return tag{}, false
		}
	}
	return t, true
}

// viewText is the text of a view row: the client's, nil for null, and the tag.
func viewText(client *string, t tag, offset int64) string {
	var b []byte
	if client == nil {
		b = append(make([]byte, 0, MaxSuffix), nullMark)
	} else {
		b = append(make([]byte, 0, len(*client)+MaxSuffix), *client...)
		b = append(b, textMark)
	}
	return string(t.append(b, offset))
}

// parseViewText takes a view row's text apart. Without a tag of ours for this offset, client is the stored text itself.
func parseViewText(stored *string, offset int64) (client *string, t tag, ours bool) {
	if stored == nil {
		return nil, tag{}, false
	}
	i := strings.LastIndex(*stored, words)
	if i < 1 {
		return stored, tag{}, false
	}
	t, ours = parseTag((*stored)[i:], offset)
	ours = ours && t.n <= highest && uint64(t.d) <= t.n && (t.n > 0 || !t.inherits)
	mark := (*stored)[i-1]
	switch {
	case ours && mark == textMark:
		text := (*stored)[:i-1]
		return &text, t, true
	case ours && mark == nullMark && i == 1:
		return nil, t, true
	}
	return stored, tag{}, false
}

// ClientText is the text that a client committed, from the stored text of a view row and its offset.
func ClientText(stored *string, offset int64) *string {
	text, _, _ := parseViewText(stored, offset)
	return text
}

// SourceIsOurs reports whether the text of a source row was written with this offset by Tandem.
func SourceIsOurs(stored *string, offset int64) bool {
	if stored == nil {
		return false
	}
	_, ok := parseSourceText(*stored, offset)
	return ok
}

// parseSourceText takes the text of a source row apart.
func parseSourceText(stored string, offset int64) (t tag, ours bool) {
	t, ours = parseTag(stored, offset)
	if !ours || t.inherits || t.d > math.MaxInt64-offset {
		return tag{}, false
	}
	return t, true
}
