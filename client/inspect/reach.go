package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// reach is how the cluster is asked: through the gateway that was named, or through one in this process.
type reach struct {
	client   *kgo.Client
	commits  *commits.Commits
	features tandemmsg.Features
	carried  *gateway.Gateway // nil: none
	views    []*gateway.View
	notes    []string
}

// closeTimeout bounds the end of the gateway in this process.
const closeTimeout = 2 * time.Second

// newReach connects.
func newReach(ctx context.Context, c *Config) (*reach, error) {
	r := &reach{}
	admin, err := gateway.OpenAdmin(ctx, c.Upstream, c.Log)
	if err == nil {
		r.views, err = admin.List(ctx)
		admin.Close()
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%v does not answer: %w", c.Upstream.Bootstrap, err)
	}
	noViews := err != nil
	if noViews {
		r.notes = append(r.notes, fmt.Sprintf("views are not known: %v", err))
	}
	opts := []kgo.Opt{kgo.ClientID("tandem-group"), kgo.SeedBrokers(c.Upstream.Bootstrap...)}
	if c.Upstream.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(c.Upstream.TLS))
	}
	if c.Upstream.SASL != nil {
		opts = append(opts, kgo.SASL(c.Upstream.SASL))
	}
	if err := r.connect(ctx, c.Group, opts); err != nil {
		return nil, err
	}
	if r.features != (tandemmsg.Features{}) { // a gateway
		return r, nil
	}
	r.client.Close()
	r.carried, err = gateway.StartInProcess(ctx, gateway.Config{Upstream: c.Upstream, NoViews: noViews, IndividualCommits: true, KeyRangeFetch: true, Log: c.Log})
	if err != nil {
		return nil, err
	}
	opts = append(opts, kgo.SeedBrokers(r.carried.Seed()...), kgo.DialTLSConfig(nil), kgo.Dialer(r.carried.Dial))
	if err := r.connect(ctx, c.Group, opts); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// connect makes the client, and asks what is behind it.
func (r *reach) connect(ctx context.Context, group string, opts []kgo.Opt) error {
	guard := &commits.Guard{}
	opts, err := guard.Opts(opts...)
	if err != nil {
		return err
	}
	if r.client, err = kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		return err
	}
	r.commits = commits.New(r.client, guard, group)
	if r.features, err = r.commits.Features(ctx); err != nil {
		r.client.Close()
		return fmt.Errorf("group %s: %w", group, err)
	}
	return nil
}

func (r *reach) close() {
	if r.client != nil {
		r.client.Close()
	}
	if r.carried != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = r.carried.Shutdown(ctx) // it held nothing
	}
}
