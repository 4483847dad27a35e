package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Config says how to reach the cluster.
type Config struct {
	// Bootstrap is one or more HOST:PORT of the cluster.
	Bootstrap []string
	// TLS, where not nil, is used on every connection to a broker, the
	// clients' ones included. A missing ServerName is filled in per broker.
	TLS *tls.Config
	// SASL is the gateway's own identity: for shared reads, the definitions
	// topic and backing topics. Never used on a client's connection.
	SASL sasl.Mechanism
	// DialTimeout bounds one dial with its TLS handshake; default 10 s.
	DialTimeout time.Duration
	// Waiting, where not nil, is called once by who waits for the cluster's
	// first answer, when that takes more than a moment, with
	// the addresses and what is wrong.
	Waiting func(addresses string, cause error)
}

// Mechanism makes a SASL mechanism from configured text: PLAIN, SCRAM-SHA-256
// or SCRAM-SHA-512.
func Mechanism(name, user, password string) (sasl.Mechanism, error) {
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("upstream: SASL mechanism %q is not supported: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", name)
}

// Dial opens a raw connection to a broker, with TLS where configured.
func (c *Config) Dial(ctx context.Context, addr string) (net.Conn, error) {
	timeout := c.DialTimeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if c.TLS == nil {
		return conn, nil
	}
	t := c.TLS.Clone()
	if t.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		t.ServerName = host
	}
	tc := tls.Client(conn, t)
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	return tc, nil
}
