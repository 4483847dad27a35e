package commits

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrUnsupported says that a broker does not understand individual commits, so that nothing was sent to it: it is no Tandem
// gateway, or one that has them off. A client that was led past the gateway gets it.
var ErrUnsupported = errors.New("commits: the broker does not know individual commits: it is no Tandem gateway, or one that has them off")

// errUnguarded says that somebody forgot it.
var errUnguarded = errors.New("commits: the client does not dial through its Guard")

// DialFunc is a dialer as kgo takes them.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Guard watches the connections of a kgo client: requests with additions for individual commits, and commits of offsets below
// 0, leave only on connections whose broker listed the feature in its ApiVersions answer. Others are not written; they fail with an error that is
// ErrUnsupported, and so does the connection.
type Guard struct{ dialed atomic.Bool }

// Dial returns a dialer whose connections are watched.
func (g *Guard) Dial(next DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		g.dialed.Store(true)
		return &conn{Conn: c}, nil
	}
}

// Opts returns the options of a kgo client with its dialer watched, a TLS one included.
func (g *Guard) Opts(opts ...kgo.Opt) ([]kgo.Opt, error) {
	opts = slices.Clip(opts)
	// It connects to nobody, but it knows what the options together mean.
	probe, err := kgo.NewClient(append(opts, kgo.ConsumerGroup(""), kgo.ConsumeTopics(), kgo.ConsumePartitions(nil))...)
	if err != nil {
		return nil, err
	}
	defer probe.Close()
	dial, ok := probe.OptValue(kgo.Dialer).(func(context.Context, string, string) (net.Conn, error))
	if !ok || dial == nil {
		return nil, fmt.Errorf("commits: kgo has a dialer of another type, %T", probe.OptValue(kgo.Dialer))
	}
	return append(opts, kgo.DialTLSConfig(nil), kgo.Dialer(g.Dial(dial))), nil // TLS is in dial
}
