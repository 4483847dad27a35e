package tandemmsg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const fetchMember = "Member"

// Member is who fetches key ranges: a member of a group of the classic protocol, in one generation.
type Member struct {
	Group, ID  string // not empty
	Generation int32  // >= 0
}

func (m *Member) check() error {
	if m.Group == "" || m.ID == "" || m.Generation < 0 {
		return within(fetchMember, errors.New("it needs a group, a generation of 0 or more, and a member id"))
	}
	return nil
}

// FetchMember returns who fetches key ranges; false: the request does not say so.
func FetchMember(req *kmsg.FetchRequest) (m Member, ok bool, err error) {
	b, ok := find(&req.UnknownTags, TagMember)
	if !ok {
		return m, false, nil
	}
	if m.Group, b, err = cutString(b); err != nil {
		return Member{}, true, within(fetchMember, fmt.Errorf("its group, as a compact string, %w", err))
	}
	if len(b) < 4 {
		return Member{}, true, within(fetchMember, errors.New("it ends before its generation does"))
	}
	m.Generation = int32(binary.BigEndian.Uint32(b))
	if m.ID, b, err = cutString(b[4:]); err != nil {
		return Member{}, true, within(fetchMember, fmt.Errorf("its member id, as a compact string, %w", err))
	}
	if len(b) > 0 {
		return Member{}, true, within(fetchMember, fmt.Errorf("%d bytes follow it", len(b)))
	}
	if err := m.check(); err != nil {
		return Member{}, true, err
	}
	return m, true, nil
}

// SetFetchMember sets what FetchMember returns; the zero Member removes it. It changes nothing if a part of it is missing.
func SetFetchMember(req *kmsg.FetchRequest, m Member) error {
	var b []byte
	if m != (Member{}) {
		if err := m.check(); err != nil {
			return err
		}
		b = appendString(binary.BigEndian.AppendUint32(appendString(nil, m.Group), uint32(m.Generation)), m.ID)
	}
	replace(&req.UnknownTags, TagMember, b)
	return nil
}

// cutString reads the compact string that b begins with.
func cutString(b []byte) (s string, rest []byte, err error) {
	n, b, err := readLen(b, 1)
	if err != nil {
		return "", nil, err
	}
	if !utf8.Valid(b[:n]) {
		return "", nil, errors.New("is not UTF-8")
	}
	return string(b[:n]), b[n:], nil
}
