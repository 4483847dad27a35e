package peers

import (
	"context"
	"time"
)

// RestartAll has the consumers do paced work, and while they do replaces each process by a new one, a second after the other at
// the earliest: stops it in order, starts another, and waits until all have their shares again. Work.Records is how many records there are at most; producing ends with the last replacement.
func (b *Bench) RestartAll(ctx context.Context, w Work, c Consumers) (*Outcome, error) {
	t, err := b.start(ctx, w, c)
	if err != nil {
		return nil, err
	}
	defer t.end()
	if err := t.tell("go"); err != nil {
		return nil, err
	}
	o := t.outcome()
	o.Begin = time.Now()
	producing, stop := context.WithCancel(ctx)
	defer stop()
	type production struct {
		sent int
		err  error
	}
	produced := make(chan production, 1)
	go func() {
		sent, err := t.producePaced(producing, o.Begin)
		produced <- production{sent, err}
	}()
	next := time.NewTicker(time.Second)
	defer next.Stop()
	for _, old := range t.members[:c.Processes:c.Processes] {
		<-next.C
		if err := old.stop(); err != nil {
			return nil, err
		}
		m, err := t.launch()
		if err != nil {
			return nil, err
		}
		if err := m.tell("go"); err != nil {
			return nil, err
		}
		if err := t.awaitMembers(ctx, nil); err != nil {
			return nil, err
		}
		if err := t.collect(o); err != nil {
			return nil, err
		}
	}
	stop()
	p := <-produced
	if p.err != nil {
		return nil, p.err
	}
	o.shorten(p.sent)
	for every := time.NewTicker(20 * time.Millisecond); !o.over() && time.Since(o.Begin) < w.Cap; <-every.C {
		if err := t.collect(o); err != nil {
			return nil, err
		}
	}
	if err := t.stop(); err != nil {
		return nil, err
	}
	return o, t.collect(o)
}

// shorten leaves out the tasks that were not sent.
func (o *Outcome) shorten(sent int) {
	o.Tasks, o.entries = o.Tasks[:sent], o.entries[:sent]
}

// Moved are the records that another process handled than the one before of their key, and how long each waited: from when it was due and the one before
// had ended.
func (o *Outcome) Moved() (waits []time.Duration) {
	before := make([]*Entry, o.Keys)
	for i := range o.entries {
		e := &o.entries[i]
		if e.End.IsZero() {
			continue
		}
		if p := before[e.Key]; p != nil && p.Process != e.Process {
			since := o.Begin.Add(o.due(i))
			if p.End.After(since) {
				since = p.End
			}
			waits = append(waits, e.Start.Sub(since))
		}
		before[e.Key] = e
	}
	return waits
}
