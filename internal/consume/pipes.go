package consume

import (
	"io"
	"os"
	"sync"
	"time"
)

// pipes connect a command with this process. They are not os/exec's own, whose Wait also waits for processes that
// the command left behind with its output.
type pipes struct {
	theirs, mine []*os.File
	copies       []func()
	work         sync.WaitGroup
}

// in lets the command read value. A command that does not read it is as good.
func (p *pipes) in(stdin *io.Reader, value []byte) error {
	if len(value) == 0 {
		return nil // /dev/null
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.theirs, p.mine = append(p.theirs, r), append(p.mine, w)
	*stdin = r
	p.copies = append(p.copies, func() {
		_, _ = w.Write(value)
		w.Close()
	})
	return nil
}

// out copies what the command writes to w.
func (p *pipes) out(std *io.Writer, to io.Writer) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.theirs, p.mine = append(p.theirs, w), append(p.mine, r)
	*std = w
	p.copies = append(p.copies, func() { _, _ = io.Copy(to, r) })
	return nil
}

// start begins to copy, when the command runs.
func (p *pipes) start() {
	for _, f := range p.theirs {
		f.Close()
	}
	p.theirs = nil
	for _, f := range p.copies {
		p.work.Go(f)
	}
}

// wait returns when the command's output has been copied, or outputGrace after the command has ended.
func (p *pipes) wait() {
	limit := time.Now().Add(outputGrace)
	for _, f := range p.mine {
		_ = f.SetDeadline(limit) // pipes have deadlines
	}
	p.work.Wait()
}

func (p *pipes) close() {
	for _, f := range append(p.theirs, p.mine...) {
		f.Close() // some are closed already
	}
}
