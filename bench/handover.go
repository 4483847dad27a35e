package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	tandem "github.com/tandem-kafka/tandem/client"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	handoverMembers = 4
	handoverKeys    = 200
	handoverRate    = 1000                 // records a second
	handoverWork    = 2 * time.Millisecond // of a handler
	handoverRest    = 2 * time.Second      // between two changes of the group, for all to be over
	handoverSession = 6 * time.Second      // the shortest that a broker allows by default
	handoverFrozen  = handoverSession + 2*time.Second

	handoverJoin   = "a member joins"
	handoverLeave  = "a member leaves gracefully"
	handoverFreeze = "a member freezes"
)

// handoverTable changes the members of a group while records come at a steady rate, and looks how late each key's records are meanwhile.
func handoverTable(b *bench) (*result, error) {
	r := &result{Head: []string{"change of the group", "rebalance", "keys handed over, p50", "p99", "most", "keys that stay, p99", "target, p99"}}
	for _, cooperative := range []bool{false, true} {
		name := "eager"
		if cooperative {
			name = "cooperative"
		}
		late, err := b.handovers(cooperative)
		if err != nil {
			return nil, err
		}
		for _, c := range []struct {
			what  string
			limit time.Duration
		}{{handoverJoin, time.Second}, {handoverLeave, time.Second}, {handoverFreeze, handoverSession + time.Second}} {
			l := late[c.what]
			b.progress("handover %s, %s: p99 %.0f ms, most %.0f ms of %d keys; others %.0f ms", name, c.what, quantile(l.moved, 0.99), quantile(l.moved, 1), len(l.moved), quantile(l.stay, 0.99))
			r.row(c.what, name, fmt.Sprintf("%.0f ms", quantile(l.moved, 0.5)), fmt.Sprintf("%.0f ms", quantile(l.moved, 0.99)), fmt.Sprintf("%.0f ms", quantile(l.moved, 1)),
				fmt.Sprintf("%.0f ms", quantile(l.stay, 0.99)), verdict(quantile(l.moved, 0.99) < c.limit.Seconds()*1000, fmt.Sprintf("< %.0f s", c.limit.Seconds())))
		}
	}
	r.note("One partition, %d processes of the Go client that share it by key with default settings but for a session timeout of %v, %d records a second of %d keys, a handler of %v. Of each key counts the record that its handler began last after "+
		"it was written, of those written around the change. A process that freezes is stopped by a signal; the others have its keys once the coordinator takes it for dead, after the session timeout.",
		handoverMembers, handoverSession, handoverRate, handoverKeys, handoverWork)
	return r, nil
}

// lateness is how late, in ms, the latest record of each key was in each change.
type lateness struct{ moved, stay []float64 }

// handled is a record that a member's handler began with.
type handled struct {
	member         int
	key            uint64
	written, began int64 // ns since the epoch
}

// handoverGroup is a group of processes and what they did.
type handoverGroup struct {
	b       *bench
	args    []string
	members map[int]*exec.Cmd
	next    int
	work    sync.WaitGroup

	mu      sync.Mutex
	handled []handled
}

func (b *bench) handovers(cooperative bool) (map[string]*lateness, error) {
	g, err := b.gateway()
	if err != nil {
		return nil, err
	}
	defer g.stop()
	topic, group := b.name("handover"), b.name("members")
	if err := b.topic(topic, 1); err != nil {
		return nil, err
	}
	defer b.dropTopics(topic)
	ctx, stop := context.WithCancel(b.ctx)
	produced := make(chan error, 1)
	go func() { produced <- b.steadily(ctx, topic) }()
	h := &handoverGroup{b: b, args: []string{g.addr, group, topic, strconv.FormatBool(cooperative)}, members: map[int]*exec.Cmd{}}
	defer h.end()
	defer stop()
	for range handoverMembers {
		if err := h.start(); err != nil {
			return nil, err
		}
	}
	if err := h.settled(); err != nil {
		return nil, err
	}
	all := map[string]*lateness{handoverJoin: {}, handoverLeave: {}, handoverFreeze: {}}
	change := func(what string, wait time.Duration, do func() error) error {
		at := time.Now()
		if err := do(); err != nil {
			return err
		}
		if err := pauseFor(b.ctx, wait); err != nil {
			return err
		}
		if err := h.settled(); err != nil {
			return err
		}
		h.count(all[what], at)
		return nil
	}
	for range b.scaled(10, 2) {
		if err := change(handoverJoin, handoverRest, h.start); err != nil {
			return nil, err
		}
		leave := func() error { _, err := h.signal(syscall.SIGTERM); return err }
		if err := change(handoverLeave, handoverRest, leave); err != nil {
			return nil, err
		}
	}
	for range b.scaled(5, 1) {
		var frozen *os.Process
		freeze := func() (err error) { frozen, err = h.signal(syscall.SIGSTOP); return err }
		if err := change(handoverFreeze, handoverFrozen, freeze); err != nil {
			return nil, err
		}
		_ = frozen.Kill()
		if err := change(handoverJoin, handoverRest, h.start); err != nil {
			return nil, err
		}
	}
	stop()
	return all, <-produced
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// steadily writes records with the time of their writing until ctx ends.
func (b *bench) steadily(ctx context.Context, topic string) error {
	cl, err := client(b.kafka.addr, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	start := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		value := binary.BigEndian.AppendUint64(make([]byte, 0, 100), uint64(time.Now().UnixNano()))
		cl.Produce(context.WithoutCancel(ctx), &kgo.Record{Key: key(i % handoverKeys), Value: value[:100]}, nil)
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / handoverRate)))
	}
	return cl.Flush(context.WithoutCancel(ctx))
}

// start starts a member.
func (h *handoverGroup) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, append([]string{"member"}, h.args...)...)
	cmd.Stderr = h.b.logs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	id := h.next
	h.next++
	h.members[id] = cmd
	h.work.Go(func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			r := handled{member: id}
			if _, err := fmt.Sscan(in.Text(), &r.key, &r.written, &r.began); err == nil {
				h.mu.Lock()
				h.handled = append(h.handled, r)
				h.mu.Unlock()
			}
		}
		_ = cmd.Wait()
	})
	return nil
}

// signal sends a signal to one of the members, which is none any more, and returns it.
func (h *handoverGroup) signal(s syscall.Signal) (*os.Process, error) {
	for id, cmd := range h.members { // in any order
		delete(h.members, id)
		return cmd.Process, cmd.Process.Signal(s)
	}
	return nil, errors.New("the group has no members")
}

// settled waits until all members work, and nothing is late.
func (h *handoverGroup) settled() error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if err := pauseFor(h.b.ctx, 100*time.Millisecond); err != nil {
			return err
		}
		busy, keys, late := map[int]bool{}, map[uint64]bool{}, false
		since := time.Now().Add(-time.Second).UnixNano()
		h.mu.Lock()
		for i := len(h.handled) - 1; i >= 0 && h.handled[i].began > since; i-- {
			r := h.handled[i]
			busy[r.member], keys[r.key] = true, true
			late = late || r.began-r.written > int64(200*time.Millisecond)
		}
		h.mu.Unlock()
		if len(busy) == len(h.members) && len(keys) == handoverKeys && !late {
			return nil
		}
	}
	return errors.New("the group does not settle")
}

// count adds how late the latest record of each key was that was written since a second before the change.
func (h *handoverGroup) count(l *lateness, change time.Time) {
	type owned struct {
		before, after int
		late          int64
	}
	keys := map[uint64]*owned{}
	h.mu.Lock()
	for _, r := range h.handled {
		k := keys[r.key]
		if k == nil {
			k = &owned{}
			keys[r.key] = k
		}
		if k.after = r.member; r.began < change.UnixNano() {
			k.before = r.member
		}
		if r.written >= change.Add(-time.Second).UnixNano() {
			k.late = max(k.late, r.began-r.written)
		}
	}
	h.mu.Unlock()
	for _, k := range keys {
		ms := float64(k.late) / 1e6
		if k.before == k.after {
			l.stay = append(l.stay, ms)
		} else {
			l.moved = append(l.moved, ms)
		}
	}
}

func (h *handoverGroup) end() {
	for _, cmd := range h.members {
		_ = cmd.Process.Kill()
	}
	h.work.Wait()
}

// handoverMember is a member of the group: GATEWAY GROUP TOPIC COOPERATIVE.
func handoverMember(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	opts := []tandem.Option{tandem.Bootstrap(args[0]), tandem.Group(args[1]), tandem.Topics(args[2]), tandem.ShareByKey(), tandem.ResetOffset(tandem.Latest),
		tandem.Logger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))), tandem.KgoOpts(kgo.SessionTimeout(handoverSession))}
	if args[3] == "true" {
		opts = append(opts, tandem.Cooperative())
	}
	c, err := tandem.New(opts...)
	if err != nil {
		return err
	}
	return c.Run(ctx, func(_ context.Context, r *tandem.Record) error {
		line := fmt.Sprintln(binary.BigEndian.Uint64(r.Key), int64(binary.BigEndian.Uint64(r.Value)), time.Now().UnixNano())
		_, err := os.Stdout.WriteString(line) // one write, so lines stay whole
		time.Sleep(handoverWork)
		return err
	})
}
