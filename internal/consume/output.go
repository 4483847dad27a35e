package consume

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/tandem-kafka/tandem/client"
)

// maxLine is how many bytes of a line are kept together.
const maxLine = 64 << 10

// Output takes what commands write, line by line, so that lines of commands that run at once do not mix. A last line without
// an end gets one; lines above 64 KiB are cut in several.
type Output struct {
	mu     sync.Mutex
	w      io.Writer
	prefix bool
}

// NewOutput returns an Output that writes to w. With prefix each line begins with the record, as "orders-3@1205: ".
func NewOutput(w io.Writer, prefix bool) *Output { return &Output{w: w, prefix: prefix} }

func (o *Output) of(r *client.Record) *lines {
	l := &lines{out: o}
	if o.prefix {
		l.prefix = fmt.Sprintf("%s-%d@%d: ", r.Topic, r.Partition, r.Offset)
	}
	return l
}

// lines is what one command writes to an Output.
type lines struct {
	out    *Output
	prefix string
	part   []byte // of a line that has not ended
}

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		switch {
		case end < 0 && len(l.part)+len(p) < maxLine:
			l.part = append(l.part, p...)
			return n, nil
		case end < 0 || len(l.part)+end > maxLine:
			end = maxLine - len(l.part)
			l.line(p[:end])
			p = p[end:]
		default:
			l.line(p[:end])
			p = p[end+1:]
		}
	}
	return n, nil
}

// line writes what a line lacks, and ends it.
func (l *lines) line(rest []byte) {
	whole := append([]byte(l.prefix), l.part...)
	whole = append(append(whole, rest...), '\n')
	l.part = l.part[:0]
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	_, _ = l.out.w.Write(whole) // whoever reads it is gone: nobody else to tell
}

func (l *lines) end() {
	if len(l.part) > 0 {
		l.line(nil)
	}
}

// maxSaid is how many bytes of what a command or an endpoint says an error has.
const maxSaid = 1024

// tail keeps the last maxSaid bytes.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(len(p)-maxSaid, 0):]...)
	if extra := len(t.b) - maxSaid; extra > 0 {
		t.b = append(t.b[:0], t.b[extra:]...)
	}
	return len(p), nil
}

// said makes text of bytes that a command or an endpoint sent: ": text", or nothing.
func said(b []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(b), "?"))
	if text == "" {
		return ""
	}
	return ": " + text
}
