package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Entry says that a process has handled a record. Times are the machine's clock, which all processes share.
type Entry struct {
	Task
	Start, End time.Time
	Process    int
}

const entryBytes = 28

// journal is what one worker process has done. It is written every 20 ms: with each record it would be most of the work.
type journal struct {
	out    *os.File
	next   atomic.Uint32
	shards [8]shard
	over   chan struct{}
	done   chan error
}

type shard struct {
	mu  sync.Mutex
	buf []byte
	_   [64]byte // no shard's lock is in the cache line of another
}

func newJournal(file string) (*journal, error) {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{out: out, over: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		every := time.NewTicker(20 * time.Millisecond)
		defer every.Stop()
		for {
			err := j.flush()
			select {
			case <-every.C:
			case <-j.over:
				j.done <- errors.Join(err, j.flush(), out.Close())
				return
			}
		}
	}()
	return j, nil
}

func (j *journal) add(t Task, start, end time.Time) {
	s := &j.shards[j.next.Add(1)%uint32(len(j.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range []uint32{t.Index, t.Key, t.Seq} {
		s.buf = binary.BigEndian.AppendUint32(s.buf, n)
	}
	for _, at := range []time.Time{start, end} {
		s.buf = binary.BigEndian.AppendUint64(s.buf, uint64(at.UnixMicro()))
	}
}

func (j *journal) flush() error {
	for i := range j.shards {
		s := &j.shards[i]
		s.mu.Lock()
		buf := s.buf
		s.buf = make([]byte, 0, len(buf))
		s.mu.Unlock()
		if _, err := j.out.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) close() error {
	close(j.over)
	return <-j.done
}

// reader reads a journal that is being written.
type reader struct {
	in   *os.File
	rest []byte
	buf  [entryBytes * 4096]byte
}

// read calls take for what was written since the last call.
func (r *reader) read(take func(Entry) error) error {
	for {
		n, err := r.in.Read(r.buf[:])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r.rest = append(r.rest, r.buf[:n]...)
		whole := r.rest
		for ; len(whole) >= entryBytes; whole = whole[entryBytes:] {
			number := func(i int) uint32 { return binary.BigEndian.Uint32(whole[i:]) }
			at := func(i int) time.Time { return time.UnixMicro(int64(binary.BigEndian.Uint64(whole[i:]))) }
			if err := take(Entry{Task: Task{Index: number(0), Key: number(4), Seq: number(8)}, Start: at(12), End: at(20)}); err != nil {
				return err
			}
		}
		r.rest = append(r.rest[:0], whole...)
	}
}

// matches compares an entry with the workload.
func (e *Entry) matches(tasks []Task) error {
	if int(e.Index) >= len(tasks) || tasks[e.Index].Key != e.Key || tasks[e.Index].Seq != e.Seq {
		return fmt.Errorf("the journal does not fit the work: record %d, key %d, number %d", e.Index, e.Key, e.Seq)
	}
	return nil
}
