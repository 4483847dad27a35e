package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// againAfter is the pause between two attempts to reach the cluster.
	againAfter = 200 * time.Millisecond
	// waitingAfter is how long nothing is said of it.
	waitingAfter = 1500 * time.Millisecond
)

// Await waits until one of the addresses answers and takes the credentials.
// The error of a cluster that does not within ctx names the addresses tried
// and what was wrong; credentials that are refused are an error at once.
func (c *Config) Await(ctx context.Context) error {
	return c.await(ctx, func() error { return nil })
}

// await is Await with one more thing that must work.
func (c *Config) await(ctx context.Context, and func() error) error {
	var mu sync.Mutex // guards cause
	var cause error
	stop := c.sayWaiting(func() error {
		mu.Lock()
		defer mu.Unlock()
		if cause == nil {
			return errors.New("no answer yet")
		}
		return cause
	})
	defer stop()
	for {
		err := c.probe(ctx)
		if err == nil {
			err = and()
		}
		if err == nil {
			return nil
		}
		mu.Lock()
		if cause == nil || ctx.Err() == nil && !timedOut(err) { // that it took too long says less than what came before
			cause = err
		}
		mu.Unlock()
		if errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.UnsupportedSaslMechanism) {
			return fmt.Errorf("%s refuses the credentials: %w", c.Addresses(), cause)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer from %s: %w", c.Addresses(), cause)
		case <-time.After(againAfter):
		}
	}
}

// timedOut reports whether an attempt ran out of time, perhaps only because ctx does in this moment.
func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// sayWaiting calls Waiting when a while has passed, until it is stopped.
func (c *Config) sayWaiting(cause func() error) (stop func()) {
	if c.Waiting == nil {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(waitingAfter, func() {
		defer close(done)
		c.Waiting(c.Addresses(), cause())
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}

// Addresses are the bootstrap addresses in one text.
func (c *Config) Addresses() string { return strings.Join(c.Bootstrap, ",") }

// probe connects to the first configured address that answers. Unlike kgo, which
// goes on trying, it says at once what is wrong.
func (c *Config) probe(ctx context.Context) error {
	var last error
	for _, addr := range c.Bootstrap {
		conn, err := c.Connect(ctx, addr, "tandem")
		if err == nil {
			conn.Close()
			return nil
		}
		last = err
	}
	return last
}
