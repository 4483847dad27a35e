package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bufferSize is the size of each of a connection's two read buffers. Larger
// frames are spliced past them.
const bufferSize = 16 << 10

// maxPending bounds the requests of one connection that wait for the broker.
const maxPending = 1024

// conn is one client connection and the one upstream connection that belongs
// to it. Two goroutines own it: readRequests reads from the client and runs the
// handlers, readResponses reads from the broker. Only one of them writes to the
// client at a time: readResponses while requests are pending, a handler's
// answer after barrier has seen that none are.
type conn struct {
	gw     *Gateway
	id     uint64
	broker int32 // the broker this port stands for; anyBroker on the bootstrap port
	log    *slog.Logger

	client net.Conn
	linger lingerer // client without TLS around it
	cr     *bufio.Reader
	up     net.Conn // nil until the first request
	ur     *bufio.Reader

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	mu       sync.Mutex
	changed  *sync.Cond
	pending  []pending
	working  bool // readResponses holds a popped entry
	finished bool
	idle     bool // readRequests waits for a frame
	answered bool // the client has had a response
	refuse   bool // close is to look like a broker that is down
	draining bool

	// What follows belongs to readRequests and the handlers it runs.
	answering   int32              // correlation id of the owned request
	correlation int32              // of the gateway's own requests on up
	versions    map[int16][2]int16 // of the broker; nil until asked for
	clientID    *string
	software    string // from ApiVersions, e.g. apache-kafka-java
	peer        string // the client's IP address
	auth        authCache
	members     map[memberKey]time.Time  // checked, see coop_member.go
	committers  map[memberKey]time.Time  // checked, see txn_rights.go
	slices      map[sliceKey]*sliceState // what this client commits, see groups.go
	txns        map[int64]*icommit.Txn   // by producer id, see txn_facts.go
	held        int64                    // of gw.requestMemory
	upBy        writeDeadline

	clientBy writeDeadline // of whoever writes to the client
}

// pending is a request that was sent upstream and has no response yet.
type pending struct {
	correlation  int32
	key, version int16
	// At most one of these is set; with none the response passes as bytes.
	rewrite func(kmsg.Response)  // changes the response on its way
	walk    bool                 // Fetch with node endpoints: see fetch_walk.go
	deliver chan<- kmsg.Response // the gateway's own request
}

// lingerer is a connection whose Close can be made a reset.
type lingerer interface{ SetLinger(sec int) error }

// errDone ends a connection without a word in the log.
var errDone = errors.New("gateway: done")

func (c *conn) serve() {
	defer c.close()
	defer c.releaseContent()
	defer c.survive()
	err := c.handshake()
	if err == nil {
		err = c.readRequests()
	}
	if err == nil || errors.Is(err, errDone) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE) || c.ctx.Err() != nil {
		return
	}
	if errors.Is(err, syscall.ECONNRESET) { // a client that crashed, or that did not wait for answers
		c.log.Debug("a client reset its connection", "cause", err)
		return
	}
	c.gw.metrics.badConnections.Inc()
	c.log.Warn("closing a client connection", "cause", err, "cure", cureFor(err))
}

// survive keeps a defect that one connection runs into from ending all others:
// deferred, it turns a panic into a log line and the end of this connection.
func (c *conn) survive() {
	if cause := recover(); cause != nil {
		c.gw.metrics.badConnections.Inc()
		c.log.Error("a defect of the gateway ends a client connection", "cause", cause, "cure", "report it, with this log line", "stack", string(debug.Stack()))
	}
}

// cureFor says what an operator can do about an error of a connection.
func cureFor(err error) string {
	var notTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &notTLS):
		return "the client does not speak TLS: set security.protocol=SSL or SASL_SSL in the client"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "none needed if the client went away; it stopped in the middle of a request, or does not read"
	case errors.Is(err, wire.ErrTLSHello):
		return "the client speaks TLS: configure tls on this gateway or security.protocol=PLAINTEXT/SASL_PLAINTEXT in the client"
	case errors.Is(err, wire.ErrHTTP):
		return "this is a Kafka port; /healthz and /metrics are on the --admin port"
	case errors.Is(err, wire.ErrFrameSize), errors.Is(err, wire.ErrHeader):
		return "not a Kafka client, or a request larger than limits.socket.request.max.bytes"
	}
	return "none needed if the client went away"
}

// close ends both sides; it may be called more than once and from anywhere.
func (c *conn) close() {
	c.cancel()
	c.mu.Lock()
	c.finished = true
	up, refuse := c.up, c.refuse
	c.changed.Broadcast()
	c.mu.Unlock()
	if refuse && c.linger != nil {
		_ = c.linger.SetLinger(0)
	}
	_ = c.client.Close()
	if up != nil {
		_ = up.Close()
	}
}

// unreachable has the client's connection end in a reset, as one to a broker
// that is down does, where it has had no answer yet. After a clean end franz-go
// takes the port for one that wants TLS, and fails its producer for good.
func (c *conn) unreachable() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = !c.answered
}

// drain lets the requests under way finish and then ends the connection.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	if c.idle {
		_ = c.client.SetReadDeadline(time.Unix(1, 0))
	}
}

// connectUpstream dials on the first request: bytes that are no Kafka request
// never reach the cluster.
func (c *conn) connectUpstream() error {
	if c.up != nil {
		return nil
	}
	up, err := c.gw.dialFor(c.ctx, c.broker)
	if err != nil {
		c.gw.logUnreachable(c.broker, err)
		c.unreachable()
		return errDone
	}
	return c.attach(up)
}

// attach takes the upstream connection into use.
func (c *conn) attach(up net.Conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		_ = up.Close()
		return errDone
	}
	c.up, c.ur = up, bufio.NewReaderSize(up, bufferSize)
	c.gw.wg.Go(func() {
		defer c.close()
		defer c.survive()
		err := c.readResponses()
		c.unreachable()
		if c.ctx.Err() == nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			c.log.Info("upstream connection ended", "broker", c.broker, "cause", err)
		}
	})
	return nil
}

// push registers a request that is about to be sent upstream.
func (c *conn) push(p pending) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) >= maxPending && !c.finished {
		c.changed.Wait()
	}
	if c.finished {
		return errDone
	}
	c.pending = append(c.pending, p)
	return nil
}

// pop takes the oldest pending request; its response has begun to arrive.
func (c *conn) pop() (pending, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return pending{}, errors.New("gateway: the broker sent a response that nobody asked for")
	}
	p := c.pending[0]
	n := copy(c.pending, c.pending[1:])
	c.pending[n] = pending{}
	c.pending = c.pending[:n]
	c.working = true
	return p, nil
}

func (c *conn) popped() {
	c.mu.Lock()
	c.working, c.answered = false, true
	c.changed.Broadcast()
	c.mu.Unlock()
}

// owed reports whether the client waits for responses.
func (c *conn) owed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) > 0 || c.working
}

// barrier waits until every response so far has left for the client.
func (c *conn) barrier() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for (len(c.pending) > 0 || c.working) && !c.finished {
		c.changed.Wait()
	}
	if c.finished {
		return errDone
	}
	return nil
}

// roundTrip sends a request of the gateway's own on the client's upstream
// connection, so with the client's principal, and waits for the response. The
// request's version must be set, see setVersion. Only handlers call it.
func (c *conn) roundTrip(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if err := c.connectUpstream(); err != nil {
		return nil, err
	}
	got := make(chan kmsg.Response, 1)
	c.correlation++
	if err := c.push(pending{correlation: c.correlation, key: req.Key(), version: req.GetVersion(), deliver: got}); err != nil {
		return nil, err
	}
	frame := wire.AppendRequest(nil, c.correlation, c.clientID, req)
	c.toBroker(len(frame))
	if _, err := c.up.Write(frame); err != nil {
		return nil, fmt.Errorf("%w: %w", errDone, err)
	}
	select {
	case resp := <-got:
		return resp, nil
	case <-c.ctx.Done():
		return nil, errDone
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// setVersion sets the highest version of req that the broker, kmsg and limit
// allow (limit < 0: no limit).
func (c *conn) setVersion(ctx context.Context, req kmsg.Request, limit int16) error {
	if c.versions == nil {
		av := kmsg.NewPtrApiVersionsRequest()
		resp, err := c.roundTrip(ctx, av)
		if err != nil {
			return err
		}
		versions := make(map[int16][2]int16)
		for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
			versions[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		c.versions = versions
	}
	v, ok := c.versions[req.Key()]
	if !ok {
		return fmt.Errorf("gateway: the broker does not know %s", kmsg.NameForKey(req.Key()))
	}
	highest := min(v[1], req.MaxVersion())
	if limit >= 0 {
		highest = min(highest, limit)
	}
	if highest < v[0] {
		return fmt.Errorf("gateway: no common version of %s", kmsg.NameForKey(req.Key()))
	}
	req.SetVersion(highest)
	return nil
}

// answer writes a response of the gateway's own. Only handlers, after barrier.
func (c *conn) answer(correlationID int32, resp kmsg.Response) error {
	frame := wire.AppendResponse(nil, correlationID, resp)
	c.toClient(len(frame))
	_, err := c.client.Write(frame)
	return err
}

// request sends a whole request frame upstream, decoded or not.
func (c *conn) request(h wire.Header, frame []byte, p pending) error {
	if err := c.connectUpstream(); err != nil {
		return err
	}
	p.correlation, p.key, p.version = h.CorrelationID, h.Key, h.Version
	if err := c.push(p); err != nil {
		return err
	}
	c.toBroker(len(frame))
	_, err := c.up.Write(frame)
	return err
}

// frameOf puts the size back in front of a request's content.
func frameOf(content []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, len(content)+4), uint32(len(content))), content...)
}
