package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/tandem-kafka/tandem/internal/config"
	"github.com/tandem-kafka/tandem/internal/embedded"
	"github.com/tandem-kafka/tandem/internal/gateway"
)

// server is a gateway and, where no cluster is named, the engine behind it.
type server struct {
	gateway *gateway.Gateway
	engine  *embedded.Engine // nil: a cluster is behind
	log     *slog.Logger
}

// startServer returns when clients may connect.
func startServer(ctx context.Context, c config.Config, log *slog.Logger, w waiting) (*server, error) {
	s := &server{log: log}
	up, err := upstreamConfig(c.Kafka, w)
	if err != nil {
		return nil, err
	}
	gc, err := gatewayConfig(c, up, log)
	if err != nil {
		return nil, err
	}
	if c.IsEmbedded() {
		if s.engine, err = embedded.Open(engineOptions(c, log)); err != nil {
			return nil, err
		}
		gc.Upstream.Bootstrap = s.engine.Addrs()
	}
	ctx, cancel := context.WithTimeout(ctx, c.Limits.StartTimeout)
	defer cancel()
	if s.gateway, err = gateway.Start(ctx, gc); err != nil {
		if s.engine != nil {
			s.engine.Close()
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("%w: another process has it; choose other ports with --listen", err)
		}
		return nil, err
	}
	return s, nil
}

// stop lets requests under way finish and releases everything.
func (s *server) stop() {
	if err := s.gateway.Shutdown(context.Background()); err != nil {
		s.log.Warn("not everything had ended", "cause", err)
	}
	if s.engine != nil {
		s.engine.Close()
	}
}
