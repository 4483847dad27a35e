package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Header is a request header (versions 1 and 2; no client speaks version 0).
type Header struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      *string
	// Body is where the body starts, counted from the start of the frame's
	// content (after the size).
	Body int
}

// MinHeader is the least number of bytes a request's content has: API key,
// version, correlation id and the length of a null client id.
const MinHeader = 10

// ErrHeader says that a frame does not start with a Kafka request header.
var ErrHeader = errors.New("wire: not a Kafka request header")

// ParseHeader reads the header at the start of a request's content (the frame
// without its size). content may be cut short behind the header.
func ParseHeader(content []byte) (Header, error) {
	var h Header
	if len(content) < MinHeader {
		return h, fmt.Errorf("%w: %d bytes", ErrHeader, len(content))
	}
	r := kbin.Reader{Src: content}
	h.Key = r.Int16()
	h.Version = r.Int16()
	h.CorrelationID = r.Int32()
	h.ClientID = r.NullableString()
	if !r.Ok() || h.Key < 0 || h.Version < 0 {
		return h, fmt.Errorf("%w: key %d version %d", ErrHeader, h.Key, h.Version)
	}
	if Flexible(h.Key, h.Version) {
		kmsg.SkipTags(&r)
		if !r.Ok() {
			return h, fmt.Errorf("%w: bad tags, key %d version %d", ErrHeader, h.Key, h.Version)
		}
	}
	h.Body = len(content) - len(r.Src)
	return h, nil
}

// Flexible reports whether a request of this key and version has a header with
// tagged fields (KIP-482). Keys that kmsg does not know count as flexible: all
// APIs since Kafka 2.4 are.
func Flexible(key, version int16) bool {
	req := kmsg.RequestForKey(key)
	if req == nil {
		return true
	}
	if version > req.MaxVersion() {
		version = req.MaxVersion()
	}
	req.SetVersion(version)
	return req.IsFlexible()
}

// AppendResponse appends a whole response frame: size, correlation id, header
// tags where the version has them, body.
func AppendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = kbin.AppendInt32(dst, correlationID)
	// The ApiVersions response has no header tags in any version, so that a
	// client can read it before it knows what the broker speaks (KIP-511).
	if resp.IsFlexible() && resp.Key() != APIVersions {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// AppendRequest appends a whole request frame with the given client id.
func AppendRequest(dst []byte, correlationID int32, clientID *string, req kmsg.Request) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = kbin.AppendInt16(dst, req.Key())
	dst = kbin.AppendInt16(dst, req.GetVersion())
	dst = kbin.AppendInt32(dst, correlationID)
	dst = kbin.AppendNullableString(dst, clientID)
	if req.IsFlexible() {
		dst = append(dst, 0)
	}
	dst = req.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// DecodeRequest reads the body of a request whose key and version kmsg knows.
func DecodeRequest(h Header, body []byte) (kmsg.Request, error) {
	req := kmsg.RequestForKey(h.Key)
	if req == nil || h.Version > req.MaxVersion() {
		return nil, fmt.Errorf("wire: key %d version %d is unknown", h.Key, h.Version)
	}
	req.SetVersion(h.Version)
	if err := req.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("wire: %s v%d: %w", kmsg.NameForKey(h.Key), h.Version, err)
	}
	return req, nil
}

// DecodeResponse reads the content of a response frame (correlation id first)
// to a request of the given key and version.
func DecodeResponse(key, version int16, content []byte) (kmsg.Response, error) {
	resp := kmsg.ResponseForKey(key)
	if resp == nil || len(content) < 4 {
		return nil, fmt.Errorf("wire: no response to key %d in %d bytes", key, len(content))
	}
	resp.SetVersion(version)
	r := kbin.Reader{Src: content[4:]}
	if resp.IsFlexible() && key != APIVersions {
		kmsg.SkipTags(&r)
		if !r.Ok() {
			return nil, fmt.Errorf("wire: response of %s v%d: bad header tags", kmsg.NameForKey(key), version)
		}
	}
	if err := resp.ReadFrom(r.Src); err != nil {
		return nil, fmt.Errorf("wire: response of %s v%d: %w", kmsg.NameForKey(key), version, err)
	}
	return resp, nil
}

// ResponseVersion returns the version of a response's content (correlation id
// first) to a request of the given version: an ApiVersions response that
// refuses the version asked for comes in version 0 (KIP-511).
func ResponseVersion(key, version int16, content []byte) int16 {
	const unsupportedVersion = 35
	if key == APIVersions && len(content) >= 6 && binary.BigEndian.Uint16(content[4:]) == unsupportedVersion {
		return 0
	}
	return version
}
