package commits

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// conn is a connection that a Guard watches. kgo begins each with ApiVersions and waits for the answer; what else is sent
// first means that nothing is known of the broker.
type conn struct {
	net.Conn
	known atomic.Int32 // what is known of the broker

	mu      sync.Mutex
	version int16  // of the last ApiVersions request
	answer  []byte // as far as it was read

	rest int // bytes of the frame that is being written
}

// What is known of a broker.
const (
	nothing int32 = iota
	additions
	noAdditions
)

const (
	frameSize   = 4
	maxVersions = 1 << 20 // bytes of an ApiVersions answer
)

// Read watches for the answer to ApiVersions.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.known.Load() == nothing {
		c.mu.Lock()
		c.answer = append(c.answer, p[:n]...)
		c.learn()
		c.mu.Unlock()
	}
	return n, err
}

// learn looks whether the answer to ApiVersions is complete.
func (c *conn) learn() {
	for c.known.Load() == nothing && len(c.answer) >= frameSize {
		size := binary.BigEndian.Uint32(c.answer)
		if size > maxVersions {
			c.decide(noAdditions)
			return
		}
		if len(c.answer) < frameSize+int(size) {
			return
		}
		content := c.answer[frameSize : frameSize+int(size)]
		version := wire.ResponseVersion(wire.APIVersions, c.version, content)
		kresp, err := wire.DecodeResponse(wire.APIVersions, version, content)
		c.answer = c.answer[frameSize+int(size):]
		if err != nil {
			c.decide(noAdditions)
			return
		}
		resp := kresp.(*kmsg.ApiVersionsResponse)
		switch {
		case resp.ErrorCode == kerr.UnsupportedVersion.Code && version == 0 && len(resp.ApiKeys) <= 1: // kgo asks again
		case tandemmsg.ReadFeatures(resp).IndividualCommit:
			c.decide(additions)
		default:
			c.decide(noAdditions)
		}
	}
}

func (c *conn) decide(known int32) {
	c.known.Store(known)
	c.answer = nil
}

// Write lets requests through, but for those that the broker would get wrong.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.look(p); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// look looks at the requests in what is about to be written. kgo writes each in one piece.
func (c *conn) look(p []byte) error {
	if skip := min(c.rest, len(p)); skip > 0 {
		p, c.rest = p[skip:], c.rest-skip
	}
	for len(p) > 0 {
		size := 0
		if len(p) >= frameSize+4 {
			size = int(int32(binary.BigEndian.Uint32(p)))
		}
		if size < 4 { // of the key and version
			return fmt.Errorf("%w (the head of a request in %d bytes cannot be looked at)", ErrUnsupported, len(p))
		}
		content := p[frameSize:]
		content = content[:min(size, len(content))]
		key, version := int16(binary.BigEndian.Uint16(content)), int16(binary.BigEndian.Uint16(content[2:]))
		if err := c.admit(key, version, content, len(content) == size); err != nil {
			return err
		}
		p, c.rest = p[frameSize+len(content):], size-len(content)
	}
	return nil
}

// admit returns why a request may not leave.
func (c *conn) admit(key, version int16, content []byte, whole bool) error {
	known := c.known.Load()
	if known == nothing {
		c.mu.Lock()
		if key == wire.APIVersions {
			c.version = version
		} else {
			c.decide(noAdditions)
			known = noAdditions
		}
		c.mu.Unlock()
	}
	switch key {
	case wire.OffsetCommit, wire.TxnOffsetCommit, wire.OffsetFetch:
	default:
		return nil
	}
	if known == additions && wire.Flexible(key, version) {
		return nil
	}
	if !whole {
		return fmt.Errorf("%w (a part of a request cannot be looked at)", ErrUnsupported)
	}
	h, err := wire.ParseHeader(content)
	if err != nil {
		return err
	}
	req, err := wire.DecodeRequest(h, content[h.Body:])
	if err != nil {
		return err
	}
	if hasAdditions(req) {
		return ErrUnsupported
	}
	return nil
}

// hasAdditions reports whether a request says anything that only a gateway understands, or commits an offset below 0.
func hasAdditions(req kmsg.Request) bool {
	switch req := req.(type) {
	case *kmsg.OffsetCommitRequest:
		if ranges, err := tandemmsg.ReadCommits(req); err != nil || len(ranges) > 0 {
			return true
		}
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				if req.Topics[i].Partitions[j].Offset < 0 {
					return true
				}
			}
		}
	case *kmsg.TxnOffsetCommitRequest:
		if ranges, err := tandemmsg.ReadCommits(req); err != nil || len(ranges) > 0 {
			return true
		}
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				if req.Topics[i].Partitions[j].Offset < 0 {
					return true
				}
			}
		}
	case *kmsg.OffsetFetchRequest:
		for i := range req.Topics {
			if keys, err := tandemmsg.KeyRanges(&req.Topics[i]); err != nil || len(keys) > 0 {
				return true
			}
		}
		for i := range req.Groups {
			for j := range req.Groups[i].Topics {
				if keys, err := tandemmsg.KeyRanges(&req.Groups[i].Topics[j]); err != nil || len(keys) > 0 {
					return true
				}
			}
		}
	}
	return false
}
