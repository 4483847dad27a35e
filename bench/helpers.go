package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/tandem-kafka/tandem/bench/peers"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/internal/upstream"
)

// helpers are what the benchmark runs as children of itself.
var helpers = map[string]func([]string) error{
	"forwarder":           forward,
	"member":              handoverMember,
	"profiled-gateway":    profiledGateway,
	"peers-worker":        peers.Worker,
	"transactions-worker": transactionsWorker,
}

// profiledGateway is a gateway that writes a CPU profile: KAFKA LISTEN FILE ADMIN.
func profiledGateway(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f, err := os.Create(args[2])
	if err != nil {
		return err
	}
	start, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	g, err := gateway.Start(start, gateway.Config{
		Upstream: upstream.Config{Bootstrap: strings.Split(args[0], ",")}, Listen: args[1], AutoCreate: true, IndividualCommits: true, KeyRangeFetch: true, CooperativeFetch: true,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", g.Metrics())
	go func() { fmt.Fprintln(os.Stderr, http.ListenAndServe(args[3], mux)) }()
	fmt.Println("ready: bootstrap", g.Addr())
	<-ctx.Done()
	pprof.StopCPUProfile()
	_ = g.Shutdown(context.Background())
	return f.Close()
}
