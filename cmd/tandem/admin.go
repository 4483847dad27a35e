package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// adminServer answers /healthz (the process lives), /readyz (clients may
// connect) and /metrics. A nil one does nothing.
type adminServer struct {
	http    *http.Server
	metrics atomic.Pointer[http.Handler] // nil until clients may connect
	isReady atomic.Bool
}

// startAdmin listens on the address; an empty one is off.
func startAdmin(addr string) (*adminServer, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("admin address: %w: choose another --admin, or leave it out", err)
	}
	a := &adminServer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !a.isReady.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		h := a.metrics.Load()
		if h == nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		(*h).ServeHTTP(w, r)
	})
	a.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() { _ = a.http.Serve(l) }() // it ends with stop
	return a, nil
}

func (a *adminServer) ready(metrics http.Handler) {
	if a != nil {
		a.metrics.Store(&metrics)
		a.isReady.Store(true)
	}
}

// draining takes the gateway out of rotation; metrics and health go on.
func (a *adminServer) draining() {
	if a != nil {
		a.isReady.Store(false)
	}
}

func (a *adminServer) stop() {
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.http.Shutdown(ctx) != nil {
		a.http.Close()
	}
}
