package harness

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client"
)

// Member is a member of a group in this process.
type Member interface {
	Close() // commits, leaves the group, and waits until the member has ended
	Crash() // ends it as kill -9 would
	Cut()   // breaks its connections and lets it make no new ones
	Errors() []error
}

// Sharer is a running member with Tandem's own client, which shares partitions by keys or by record and handles many records at once.
type Sharer struct {
	line
	client *client.Client
	polls  bool
	stop   context.CancelFunc // of the polls
	ended  chan struct{}
	err    error
}

// Share starts a member like Consume, but with Tandem's own client. Bootstrap has to name a gateway. Of c.Opts those count that package client passes on.
func Share(t testing.TB, l *Ledger, c ConsumerConfig, opts ...client.Option) *Sharer {
	t.Helper()
	if c.Session == 0 {
		c.Session = 6 * time.Second
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Sharer{line: newLine(), polls: c.Polls, stop: stop, ended: make(chan struct{})}
	all := []client.Option{
		client.Bootstrap(strings.Split(c.Bootstrap, ",")...), client.Group(c.Group), client.Topics(c.Topics...),
		client.Logger(slog.New(slog.NewTextHandler(t.Output(), nil)).With("member", c.Member)),
		client.KgoOpts(kgo.SessionTimeout(c.Session), kgo.HeartbeatInterval(c.Session/6), kgo.Dialer(m.dial), kgo.ClientID(c.Member)), client.KgoOpts(c.Opts...),
	}
	if c.ByRecord {
		all = append(all, client.ShareByRecord(), client.SessionTimeout(3*c.Session))
	} else {
		all = append(all, client.ShareByKey())
	}
	if c.Committed {
		all = append(all, client.Isolation(client.ReadCommitted))
	}
	if c.Latest {
		all = append(all, client.ResetOffset(client.Latest))
	}
	var err error
	if m.client, err = client.New(append(all, opts...)...); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.ended)
		if c.Polls {
			m.err = m.poll(ctx, l, c)
			return
		}
		m.err = m.client.Run(context.Background(), func(ctx context.Context, r *client.Record) error { return m.handle(ctx, l, c, r.Record) })
	}()
	t.Cleanup(m.Crash)
	return m
}

// poll handles what it polls, one record after the other, and commits each, until ctx ends.
func (m *Sharer) poll(ctx context.Context, l *Ledger, c ConsumerConfig) error {
	for {
		records, err := m.client.Poll(ctx, 100)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		for _, r := range records {
			if ctx.Err() != nil {
				break
			}
			if m.handle(ctx, l, c, r.Record) == nil {
				_ = m.client.Commit(r) // if it was taken away, others handle it
			}
		}
	}
}

func (m *Sharer) handle(ctx context.Context, l *Ledger, c ConsumerConfig, r *kgo.Record) error {
	d := Delivery{Member: c.Member, Partition: r.Partition, Offset: r.Offset, N: number(r.Value), Start: time.Now()}
	if c.Handle != nil {
		c.Handle(r)
	}
	if c.Fails != nil && c.Fails(r) {
		return errors.New("harness: the record fails")
	}
	if c.Work > 0 {
		select {
		case <-time.After(c.Work):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if m.cut.Load() { // a killed process finishes nothing
		return errCut
	}
	d.End = time.Now()
	l.Delivered(d)
	return nil
}

// Close drains, commits, leaves the group and waits until the member has ended.
func (m *Sharer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	m.stopPolls()
	_ = m.client.Close(ctx)
	<-m.ended
}

// stopPolls ends the loop of a member that polls: after it there is nothing to commit but what it has handled.
func (m *Sharer) stopPolls() {
	m.stop()
	if m.polls {
		<-m.ended
	}
}

// Crash ends the member as kill -9 would: its connections break, it commits nothing and does not leave the group.
func (m *Sharer) Crash() {
	m.Cut()
	m.stopPolls()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.client.Close(ctx)
	<-m.ended
}

// Errors has the error with which Run has ended, if there is one.
func (m *Sharer) Errors() []error {
	select {
	case <-m.ended:
		if m.err != nil {
			return []error{m.err}
		}
	default:
	}
	return nil
}

// Client is the client inside.
func (m *Sharer) Client() *client.Client { return m.client }
