package consume

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tandem-kafka/tandem/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// order is a record; change may be nil.
func order(change func(*client.Record)) *client.Record {
	r := &client.Record{Attempt: 2, Record: &kgo.Record{
		Topic: "orders", Partition: 3, Offset: 1205, Timestamp: time.UnixMilli(1_700_000_000_123), Key: []byte("k 1"), Value: []byte("line 1\nline 2"),
	}}
	if change != nil {
		change(r)
	}
	return r
}

// shell runs scripts for records and keeps what they write.
type shell struct {
	*Command
	stdout, stderr screen
}

func newShell(t *testing.T, script string, change func(*CommandOptions)) *shell {
	t.Helper()
	s := &shell{}
	o := CommandOptions{Stdout: NewOutput(&s.stdout, false), Stderr: NewOutput(&s.stderr, false)}
	if change != nil {
		change(&o)
	}
	var err error
	if s.Command, err = NewCommand([]string{"/bin/sh", "-c", script}, o); err != nil {
		t.Fatal(err)
	}
	return s
}

// handle runs the script, and fails the test when that takes too long.
func (s *shell) handle(t *testing.T, ctx context.Context, r *client.Record) error {
	t.Helper()
	end := make(chan error, 1)
	go func() { end <- s.Handle(ctx, r) }()
	select {
	case err := <-end:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the command is waited for too long")
		return nil
	}
}

type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) { // poll
		if time.Now().After(deadline) {
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}
