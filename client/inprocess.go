package client

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/internal/upstream"
)

// inProcess are the settings of the gateway in the process.
type inProcess struct {
	cacheBytes int64
}

// carry starts a gateway in this process, and returns the options with which a kgo client reaches it.
func (c *config) carry(ctx context.Context) (*gateway.Gateway, []kgo.Opt, error) {
	probe, err := kgo.NewClient(append(c.kgo, kgo.SeedBrokers(c.bootstrap...))...) // it knows what the options together mean, and connects to nobody
	if err != nil {
		return nil, nil, err
	}
	defer probe.Close()
	up := upstream.Config{Bootstrap: c.bootstrap}
	up.TLS, _ = probe.OptValue(kgo.DialTLSConfig).(*tls.Config)
	if list, ok := probe.OptValue(kgo.SASL).([]sasl.Mechanism); ok && len(list) > 0 {
		up.SASL = list[0]
	}
	gw, err := gateway.StartInProcess(ctx, gateway.Config{
		Upstream: up, NoViews: true, IndividualCommits: true, KeyRangeFetch: true, CooperativeFetch: true,
		Limits: gateway.Limits{CacheBytes: c.inProcess.cacheBytes}, Log: c.log.With("part", "gateway"),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("client: the gateway in the process: %w", err)
	}
	return gw, []kgo.Opt{kgo.SeedBrokers(gw.Seed()...), kgo.DialTLSConfig(nil), kgo.Dialer(gw.Dial)}, nil
}
