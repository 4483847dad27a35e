package icommit

import (
	"context"
	"fmt"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
)

// Append writes records of one group and returns when all in-sync replicas have them. What adds facts is acknowledged before anything that
// deletes is sent. The topic is made when it is missing. After an error some of the records may be written; appending them again is harmless.
func (l *Log) Append(ctx context.Context, group string, records []record.Record) error {
	if len(records) == 0 {
		return nil
	}
	puts, deletions, err := encode(group, records)
	if err != nil {
		return err
	}
	return l.write(ctx, group, puts, deletions)
}

// AppendHandouts writes records of one group in their order, and returns when all in-sync replicas have them. The topic is made when it is missing. After an error some of the records may
// be written, or be written later.
func (l *Log) AppendHandouts(ctx context.Context, group string, records []record.Handout) error {
	entries := make([]Entry, len(records))
	for i := range records {
		r := &records[i]
		if err := r.Check(); err != nil {
			return fmt.Errorf("icommit: a handout of group %q, topic %s, partition %d: %w", group, r.Topic, r.Partition, err)
		}
		if r.Group != group {
			return fmt.Errorf("icommit: a handout of group %q among those of group %q", r.Group, group)
		}
		if entries[i].Key = record.AppendHandoutKey(nil, r); !r.Entry.Delete {
			entries[i].Value = record.AppendHandoutValue(nil, r)
		}
	}
	return l.write(ctx, group, entries, nil)
}

func (l *Log) write(ctx context.Context, group string, puts, deletions []Entry) error {
	var last error
	for pause := l.cfg.backoff; ; pause = min(2*pause, maxPause) {
		t, err := l.ensure(ctx)
		if err == nil {
			err = l.append(ctx, t, record.PartitionOf(group, t.Partitions), puts, deletions)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return failed("writing to", ctx.Err(), err)
		case !gone(err):
			return failed("writing to", err, nil)
		}
		last = err
		if err := l.pause(ctx, pause); err != nil {
			return failed("writing to", err, last)
		}
	}
}

func (l *Log) append(ctx context.Context, t Topic, partition int32, puts, deletions []Entry) (err error) {
	l.mu.Lock()
	if f := l.followers[partition]; f != nil {
		f.touch()
	}
	l.mu.Unlock()
	defer func() {
		if err != nil { // the next Append looks first
			l.mu.Lock()
			l.topic = Topic{}
			l.mu.Unlock()
		}
	}()
	if len(puts) > 0 {
		if err := l.up.Append(ctx, t, partition, puts); err != nil {
			return err
		}
		l.metrics.Appended.Add(int64(len(puts)))
	}
	if len(deletions) > 0 {
		if err := l.up.Append(ctx, t, partition, deletions); err != nil {
			return err
		}
		l.metrics.Deleted.Add(int64(len(deletions)))
	}
	return nil
}

// ensure returns the topic, which it makes where it is not known to be there.
func (l *Log) ensure(ctx context.Context) (Topic, error) {
	l.mu.Lock()
	t, closed := l.topic, l.closed
	l.mu.Unlock()
	if closed {
		return t, ErrClosed
	}
	if t.Partitions > 0 {
		return t, nil
	}
	return l.create.do(ctx, l.start, func() (Topic, error) {
		ctx, cancel := context.WithTimeout(l.ctx, 2*askTimeout)
		defer cancel()
		t, err := l.up.Create(ctx)
		if err == nil {
			l.see(t)
		}
		return t, err
	})
}

// encode makes entries of records: those that add facts, and those that delete.
func encode(group string, records []record.Record) (puts, deletions []Entry, err error) {
	const most = 1024 // records that share one piece of memory
	puts = make([]Entry, 0, len(records))
	var key, value []byte
	var valued [16]byte // what value says
	for i := range records {
		r := &records[i]
		if err := r.Check(); err != nil {
			return nil, nil, fmt.Errorf("icommit: a record of group %q, topic %s, partition %d: %w", group, r.Topic, r.Partition, err)
		}
		if r.Group != group {
			return nil, nil, fmt.Errorf("icommit: a record of group %q among those of group %q", r.Group, group)
		}
		if i%most == 0 {
			key = make([]byte, 0, min(most, len(records)-i)*(len(group)+len(r.Topic)+30))
		}
		from := len(key)
		key = record.AppendKey(key, r)
		e := Entry{Key: key[from:len(key):len(key)]}
		if r.Delete {
			deletions = append(deletions, e)
			continue
		}
		if value == nil || r.TopicID != valued {
			valued, value = r.TopicID, record.AppendValue(nil, r)
		}
		e.Value = value
		puts = append(puts, e)
	}
	return puts, deletions, nil
}
