package peers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// member is a process that consumes.
type member struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	number  int
	journal reader
	share   atomic.Uint64 // bits of a float64: how much of the key axis it says that it has
	exited  chan struct{}
	err     error // of the process; after exited
}

func (t *trial) launch() (*member, error) {
	m := &member{number: len(t.members), exited: make(chan struct{})}
	file := filepath.Join(t.dir, strconv.Itoa(m.number))
	args := append(t.c.Command[1:len(t.c.Command):len(t.c.Command)], "-bootstrap", t.c.Bootstrap, "-topic", t.topic, "-group", t.topic, "-journal", file, "-concurrency", strconv.Itoa(t.c.Concurrency))
	if t.b.Profile != "" && (t.c.Group == KeyRanges || t.c.Group == ByRecord) {
		args = append(args, "-profile", filepath.Join(t.b.Profile, filepath.Base(t.dir)+"-"+strconv.Itoa(m.number)+".prof"))
	}
	m.cmd = exec.Command(t.c.Command[0], args...)
	m.cmd.Stderr = t.b.Log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if m.journal.in, err = os.OpenFile(file, os.O_RDONLY|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line struct{ Share float64 }
			if json.Unmarshal(lines.Bytes(), &line) == nil {
				m.share.Store(math.Float64bits(line.Share))
			}
		}
		m.err = m.cmd.Wait()
		close(m.exited)
	}()
	t.members = append(t.members, m)
	return m, nil
}

func (m *member) tell(line string) error {
	_, err := io.WriteString(m.in, line+"\n")
	return err
}

func (m *member) alive() bool {
	select {
	case <-m.exited:
		return false
	default:
		return true
	}
}

// stop has it close, in order as far as it does that.
func (m *member) stop() error {
	if !m.alive() {
		return nil
	}
	if err := m.tell("stop"); err != nil {
		return err
	}
	select {
	case <-m.exited:
		return m.err
	case <-time.After(30 * time.Second):
		m.kill()
		return fmt.Errorf("process %d did not stop", m.number)
	}
}

func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	<-m.exited
	_ = m.journal.in.Close()
}

// tell writes a line to all that live.
func (t *trial) tell(line string) error {
	for _, m := range t.members {
		if m.alive() {
			if err := m.tell(line); err != nil {
				return fmt.Errorf("process %d: %w", m.number, err)
			}
		}
	}
	return nil
}

func (t *trial) stop() error {
	errs := make(chan error, len(t.members))
	for _, m := range t.members {
		go func() { errs <- m.stop() }()
	}
	var first error
	for range t.members {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// shared is how many processes have their share of the key axis, which is the same for all.
func (t *trial) shared() (n int) {
	for _, m := range t.members {
		if m.alive() && math.Abs(math.Float64frombits(m.share.Load())*float64(t.c.Processes)-1) < 1e-6 {
			n++
		}
	}
	return n
}

// collect reads what was written to the journals.
func (t *trial) collect(o *Outcome) error {
	for _, m := range t.members {
		err := m.journal.read(func(e Entry) error {
			e.Process = m.number
			return o.add(e)
		})
		if err != nil {
			return err
		}
		if !m.alive() && m.err != nil {
			return fmt.Errorf("process %d ended: %w", m.number, m.err)
		}
	}
	return nil
}
