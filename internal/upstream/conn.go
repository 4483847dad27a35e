package upstream

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxResponse bounds what one response can make the gateway allocate.
const maxResponse = 512 << 20

// Conn is a connection of the gateway's own to one broker, authenticated and
// with known versions. It takes one request at a time and belongs to one
// goroutine. kgo shares one connection per broker among all fetches, where the
// long poll of one partition would hold up the others: hence our own.
type Conn struct {
	raw      net.Conn
	addr     string // as dialled, HOST:PORT
	r        *bufio.Reader
	clientID string
	next     int32
	out      []byte
	body     []byte // of the last response where it can be recycled, see takeBody
	versions map[int16][2]int16
	used     time.Time // when the reader's pool got it back
}

// Connect dials, asks for versions and authenticates.
func (c *Config) Connect(ctx context.Context, addr, clientID string) (*Conn, error) {
	raw, err := c.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn := &Conn{raw: raw, addr: addr, r: bufio.NewReaderSize(raw, 16<<10), clientID: clientID}
	timeout := c.DialTimeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	hello, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := conn.hello(hello, c); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("broker %s: %w", addr, err)
	}
	return conn, nil
}

func (c *Conn) hello(ctx context.Context, cfg *Config) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = "tandem", "1"
	resp, err := c.RoundTrip(ctx, req)
	if err != nil {
		return err
	}
	av := resp.(*kmsg.ApiVersionsResponse)
	if av.ErrorCode == kerr.UnsupportedVersion.Code { // Kafka before 2.4
		req.Version = 0
		if resp, err = c.RoundTrip(ctx, req); err != nil {
			return err
		}
		av = resp.(*kmsg.ApiVersionsResponse)
	}
	if err := kerr.ErrorForCode(av.ErrorCode); err != nil {
		return err
	}
	c.versions = make(map[int16][2]int16, len(av.ApiKeys))
	for _, k := range av.ApiKeys {
		c.versions[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	if cfg.SASL == nil {
		return nil
	}
	if err := c.authenticate(ctx, cfg); err != nil {
		return fmt.Errorf("SASL authentication: %w", err)
	}
	return nil
}

func (c *Conn) authenticate(ctx context.Context, cfg *Config) error {
	hs := kmsg.NewPtrSASLHandshakeRequest()
	hs.Version, hs.Mechanism = 1, cfg.SASL.Name()
	resp, err := c.RoundTrip(ctx, hs)
	if err != nil {
		return err
	}
	if h := resp.(*kmsg.SASLHandshakeResponse); h.ErrorCode != 0 {
		return fmt.Errorf("SASL mechanism %s: %w; the broker offers %v", hs.Mechanism, kerr.ErrorForCode(h.ErrorCode), h.SupportedMechanisms)
	}
	session, message, err := cfg.SASL.Authenticate(ctx, c.addr) // as kgo: some mechanisms sign the host's name
	if err != nil {
		return err
	}
	for done := false; !done; {
		auth := kmsg.NewPtrSASLAuthenticateRequest()
		auth.Version, auth.SASLAuthBytes = 1, message
		resp, err := c.RoundTrip(ctx, auth)
		if err != nil {
			return err
		}
		a := resp.(*kmsg.SASLAuthenticateResponse)
		if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
			if a.ErrorMessage != nil {
				return fmt.Errorf("%w: %s", err, *a.ErrorMessage)
			}
			return err
		}
		if done, message, err = session.Challenge(a.SASLAuthBytes); err != nil {
			return err
		}
	}
	return nil
}

// Version sets a request's version to the highest that both sides know.
func (c *Conn) Version(req kmsg.Request) error {
	v, ok := c.versions[req.Key()]
	if !ok || v[0] > req.MaxVersion() {
		return fmt.Errorf("upstream: the broker does not know %s: %w", kmsg.NameForKey(req.Key()), kerr.UnsupportedVersion)
	}
	req.SetVersion(min(v[1], req.MaxVersion()))
	return nil
}

// ask sends a request in the highest version that both sides know, but limit at most, and waits for its response.
func ask[T kmsg.Response](ctx context.Context, c *Conn, req kmsg.Request, limit int16) (resp T, err error) {
	if err := c.Version(req); err != nil {
		return resp, err
	}
	req.SetVersion(min(req.GetVersion(), limit))
	kresp, err := c.RoundTrip(ctx, req)
	if err != nil {
		return resp, err
	}
	return kresp.(T), nil
}

// RoundTrip sends a request whose version is set and waits for its response.
// Any error but a context's end before the write leaves the connection closed.
func (c *Conn) RoundTrip(ctx context.Context, req kmsg.Request) (resp kmsg.Response, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.raw.Close() })
	defer func() {
		if !stop() && err != nil {
			err = errors.Join(ctx.Err(), err)
		}
		if err != nil {
			_ = c.raw.Close()
		}
	}()
	c.next++
	c.out = wire.AppendRequest(c.out[:0], c.next, &c.clientID, req)
	if _, err := c.raw.Write(c.out); err != nil {
		return nil, err
	}
	if cap(c.out) > 1<<20 {
		c.out = nil
	}
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > maxResponse {
		return nil, fmt.Errorf("%w: response of %d bytes", wire.ErrFrameSize, size)
	}
	content, err := c.content(int(size))
	if err != nil {
		return nil, err
	}
	if got := (&kbin.Reader{Src: content}).Int32(); got != c.next {
		return nil, fmt.Errorf("upstream: answer %d to request %d", got, c.next)
	}
	return wire.DecodeResponse(req.Key(), wire.ResponseVersion(req.Key(), req.GetVersion(), content), content)
}

// Bodies of this size are recycled where the reader gives them back. Making one costs more than filling it: the memory is new each
// time, has to be cleared, and drives the garbage collector.
const (
	recycledFrom = 256 << 10
	recycledTo   = 4 << 20
)

var bodies sync.Pool // of *[]byte

// content reads a response in one allocation, unless it is so large that memory shall follow the bytes that really arrive.
func (c *Conn) content(size int) ([]byte, error) {
	c.body = nil
	if size > recycledTo {
		return wire.ReadContent(c.r, size)
	}
	var buf []byte
	if size >= recycledFrom {
		if b, _ := bodies.Get().(*[]byte); b != nil && cap(*b) >= size {
			buf = (*b)[:size]
		} else {
			buf = make([]byte, size, size+size/8) // the next one may be a little larger
		}
		c.body = buf
	} else {
		buf = make([]byte, size)
	}
	_, err := io.ReadFull(c.r, buf)
	return buf, err
}

// takeBody returns a function that recycles the body of the last response, or nil. The body belongs to the caller until then.
func (c *Conn) takeBody() func() {
	body := c.body
	c.body = nil
	if body == nil {
		return nil
	}
	return func() { bodies.Put(&body) }
}

// Close closes the connection.
func (c *Conn) Close() { _ = c.raw.Close() }

// Versions returns the API versions the broker named, [lowest, highest].
func (c *Conn) Versions() map[int16][2]int16 { return c.versions }
