package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const tick = 100 * time.Millisecond

// run is a demo under way.
type run struct {
	opts      Options
	group     string
	ledger    *ledger
	screen    Screen
	topic     string // of the phase
	virtual   bool
	began     time.Time
	consumers []*consumer
	meter     meter
}

// onTopic is the first part: all consumers on the topic itself, for a while.
// It returns the records per second.
func (r *run) onTopic(ctx context.Context) (float64, error) {
	if err := r.start(r.opts.Topic, false); err != nil {
		return 0, err
	}
	defer r.leave()
	err := r.watch(ctx, 1, func(atWork time.Duration, _ []ConsumerState) bool { return atWork >= r.opts.Plain })
	return r.meter.rate(), err
}

// onView is the second part: the same group moves to the view and does the
// rest. In the middle one consumer is killed, and another one started.
func (r *run) onView(ctx context.Context, view string) (float64, error) {
	if err := r.start(view, true); err != nil {
		return 0, err
	}
	defer r.leave()
	r.screen.Event("the consumers now subscribe to %s and go on where they were", view)
	killAt := (r.ledger.done() + r.opts.Records) / 2
	var victim *consumer
	tail := false
	err := r.watch(ctx, r.opts.Consumers, func(_ time.Duration, states []ConsumerState) bool {
		if heir := len(states) - 1; victim != nil && !tail && states[heir].Working && working(states) <= (r.opts.Consumers+1)/2 {
			tail = true
			r.screen.Event("the others have little or nothing left: %s works off what waited until the group noticed that %s was gone", states[heir].Name, victim.name)
		}
		if victim == nil && r.ledger.done() >= killAt {
			victim = r.consumers[0]
			victim.kill()
			name := fmt.Sprintf("consumer-%d", r.opts.Consumers+1)
			r.screen.Event("%s is killed in the middle of its work, %s takes its place once the group has noticed", victim.name, name)
			c, err := startConsumer(name, view, r.group, r.opts, r.ledger)
			if err == nil {
				r.consumers = append(r.consumers, c)
			}
		}
		return false
	})
	if victim != nil {
		// Its clean-up ends once its client gives up.
		defer func() { <-victim.done }()
	}
	return r.meter.rate(), err
}

func (r *run) start(topic string, virtual bool) error {
	r.topic, r.virtual, r.began, r.consumers, r.meter = topic, virtual, time.Now(), nil, meter{}
	for i := range r.opts.Consumers {
		c, err := startConsumer(fmt.Sprintf("consumer-%d", i+1), topic, r.group, r.opts, r.ledger)
		if err != nil {
			r.leave()
			return err
		}
		r.consumers = append(r.consumers, c)
	}
	return nil
}

// leave stops the consumers that live, all at once.
func (r *run) leave() {
	done := make(chan struct{})
	n := 0
	for _, c := range r.consumers {
		if c.life.Err() == nil {
			n++
			go func() { c.leave(); done <- struct{}{} }()
		}
	}
	for range n {
		<-done
	}
}

// working counts the consumers at work.
func working(states []ConsumerState) (n int) {
	for i := range states {
		if states[i].Working {
			n++
		}
	}
	return n
}

// watch draws and measures until all records are done or enough says so, given
// the time that `want` consumers have been at work, and how they are now.
func (r *run) watch(ctx context.Context, want int, enough func(atWork time.Duration, states []ConsumerState) bool) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		states := make([]ConsumerState, len(r.consumers))
		var errs []error
		for i, c := range r.consumers {
			states[i] = c.state()
			if err := states[i].err; err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
			}
		}
		r.meter.note(time.Now(), states, want, 4*tick+r.opts.Work)
		all, idle := r.ledger.complete()
		r.screen.Draw(Picture{
			Topic: r.topic, Virtual: r.virtual, Elapsed: time.Since(r.began), Done: r.ledger.done(), Total: r.opts.Records,
			Rate: r.meter.recent(), Consumers: r.meter.rates(states),
		})
		if all || enough(r.meter.atWork, states) {
			return nil
		}
		if idle > stuckAfter {
			return errors.Join(append([]error{fmt.Errorf("no record was handled for %v", stuckAfter)}, errs...)...)
		}
	}
}
