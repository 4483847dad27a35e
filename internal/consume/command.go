package consume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tandem-kafka/tandem/client"
)

// outputGrace is how long output of a command is waited for that has ended: a process that left its group may hold it open.
const outputGrace = time.Second

// Command runs a program for each record, in a process group of its own: the value is on its stdin, the rest in variables TANDEM_*.
type Command struct {
	argv           []string
	path           string
	env            []string
	timeout, grace time.Duration
	stdout, stderr *Output
}

// CommandOptions are the settings of a Command.
type CommandOptions struct {
	Env            []string      // "NAME=value", beside those of this process
	Timeout        time.Duration // of one run; then it is ended and has failed. 0: none
	Grace          time.Duration // between SIGTERM and SIGKILL when a run is ended. 0: 5 s
	Stdout, Stderr *Output       // required
}

// NewCommand returns a Command that runs argv, or an error when there is no such program.
func NewCommand(argv []string, o CommandOptions) (*Command, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, fmt.Errorf("the command cannot be run: %w", err)
	}
	c := &Command{argv: argv, path: path, timeout: o.Timeout, grace: o.Grace, stdout: o.Stdout, stderr: o.Stderr}
	if c.grace == 0 {
		c.grace = 5 * time.Second
	}
	for _, v := range os.Environ() { // a command that runs tandem consume again must not see its outer record
		if !strings.HasPrefix(v, ours) {
			c.env = append(c.env, v)
		}
	}
	c.env = append(c.env, o.Env...)
	return c, nil
}

// Handle runs the command; nil: it ended with 0. Otherwise the error says how it ended and the last of what it wrote to stderr.
// When ctx or the timeout ends, its process group gets SIGTERM, and what is left of it SIGKILL. What it leaves behind in
// its group when it ends is killed, too, so that nothing works on a record that is done.
func (c *Command) Handle(ctx context.Context, r *client.Record) error {
	run := ctx
	if c.timeout > 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	if err := run.Err(); err != nil {
		return err
	}
	var last tail
	err := c.run(run, r, &last)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("ended before it was done: %w", ctx.Err())
	case run.Err() != nil:
		return fmt.Errorf("not done in %v%s", c.timeout, said(last.b))
	case errors.Is(err, syscall.E2BIG):
		return client.Permanent(fmt.Errorf("the record's key and headers are too large for a command's environment: %w", err))
	}
	return fmt.Errorf("%w%s", err, said(last.b))
}

func (c *Command) run(ctx context.Context, r *client.Record, last *tail) error {
	cmd := &exec.Cmd{Path: c.path, Args: c.argv, Env: append(environ(r), c.env...)}
	inGroup(cmd)
	var p pipes
	defer p.close()
	stdout, stderr := c.stdout.of(r), c.stderr.of(r)
	err := errors.Join(p.in(&cmd.Stdin, r.Value), p.out(&cmd.Stdout, stdout), p.out(&cmd.Stderr, io.MultiWriter(stderr, last)))
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.start()
	var mu sync.Mutex
	ended := false
	signal := func(s syscall.Signal) {
		mu.Lock()
		defer mu.Unlock()
		if !ended { // its number may be another's by now
			signalGroup(cmd, s)
		}
	}
	var kill *time.Timer
	stop := context.AfterFunc(ctx, func() {
		signal(syscall.SIGTERM)
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			kill = time.AfterFunc(c.grace, func() { signal(syscall.SIGKILL) })
		}
	})
	err = cmd.Wait()
	stop()
	mu.Lock()
	ended = true
	signalGroup(cmd, syscall.SIGKILL) // the rest of the group
	if kill != nil {
		kill.Stop()
	}
	mu.Unlock()
	p.wait()
	stdout.end()
	stderr.end()
	return err
}
