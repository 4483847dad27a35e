//go:build linux

package consume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client"
)

func TestACommandSeesTheRecord(t *testing.T) {
	t.Setenv("TANDEM_HEADER_OUTER", "of the record of another tandem consume")
	plainOrder := []string{"TANDEM_TOPIC=orders", "TANDEM_PARTITION=3", "TANDEM_OFFSET=1205", "TANDEM_TIMESTAMP=1700000000123", "TANDEM_ATTEMPT=2", "TANDEM_GROUP=g"}
	for name, c := range map[string]struct {
		change func(*client.Record)
		want   []string
	}{
		"text key":       {nil, []string{"TANDEM_KEY=k 1", "TANDEM_KEY_BASE64=ayAx"}},
		"empty key":      {func(r *client.Record) { r.Key = []byte{} }, []string{"TANDEM_KEY=", "TANDEM_KEY_BASE64="}},
		"null key":       {func(r *client.Record) { r.Key = nil }, nil},
		"key with NUL":   {func(r *client.Record) { r.Key = []byte("a\x00b") }, []string{"TANDEM_KEY_BASE64=YQBi"}},
		"tombstone":      {func(r *client.Record) { r.Key, r.Value = nil, nil }, []string{"TANDEM_VALUE_NULL=1"}},
		"no UTF-8":       {func(r *client.Record) { r.Key = []byte{0xff} }, []string{"TANDEM_KEY=\xff", "TANDEM_KEY_BASE64=/w=="}},
		"shell in a key": {func(r *client.Record) { r.Key = []byte("$(id)`id`;") }, []string{"TANDEM_KEY=$(id)`id`;", "TANDEM_KEY_BASE64=JChpZClgaWRgOw=="}},
		"headers": {func(r *client.Record) {
			r.Key = nil
			r.Headers = []kgo.RecordHeader{{Key: "trace-Id", Value: []byte("1")}, {Key: "trace-Id", Value: []byte("2")}, {Key: "é=", Value: nil}, {Key: "bin", Value: []byte{0}}}
		}, []string{"TANDEM_HEADER_TRACE_ID=2", "TANDEM_HEADER___=",
			`TANDEM_HEADERS=[{"key":"trace-Id","value":"MQ=="},{"key":"trace-Id","value":"Mg=="},{"key":"\u00e9=","value":null},{"key":"bin","value":"AA=="}]`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t, "env", func(o *CommandOptions) { o.Env = []string{"TANDEM_GROUP=g"} })
			if err := s.handle(t, t.Context(), order(c.change)); err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for line := range strings.Lines(s.stdout.String()) {
				if strings.HasPrefix(line, "TANDEM_") {
					got[strings.TrimSuffix(line, "\n")] = true
				}
			}
			for _, w := range append(plainOrder, c.want...) {
				if !got[w] {
					t.Errorf("no %s", w)
				}
				delete(got, w)
			}
			if len(got) > 0 {
				t.Errorf("too much: %v", got)
			}
		})
	}
}

func TestACommandReadsTheValue(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16) // more than a pipe holds
	for name, value := range map[string][]byte{"lines": []byte("a\nb\n"), "no end": []byte("a"), "large": large} {
		s := newShell(t, "cat", nil)
		if err := s.handle(t, t.Context(), order(func(r *client.Record) { r.Value = value })); err != nil {
			t.Error(err)
		}
		if want := strings.TrimSuffix(string(value), "\n") + "\n"; s.stdout.String() != want {
			t.Errorf("%s: %d bytes came back, not %d", name, len(s.stdout.String()), len(want))
		}
	}
	// Null and empty values, and a command that does not read.
	for name, c := range map[string]struct {
		script string
		value  []byte
	}{"null": {"[ -z \"$(cat)\" ]", nil}, "empty": {"[ -z \"$(cat)\" ]", []byte{}}, "unread": {"exit 0", large}} {
		if err := newShell(t, c.script, nil).handle(t, t.Context(), order(func(r *client.Record) { r.Value = c.value })); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFailureSaysWhy(t *testing.T) {
	for script, want := range map[string]string{
		"echo out; echo bad order >&2; exit 3": "exit status 3: bad order",
		"exit 7":                               "exit status 7",
		"kill -9 $$":                           "signal: killed",
	} {
		s := newShell(t, script, nil)
		if err := s.handle(t, t.Context(), order(nil)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", script, err)
		}
	}
	s := newShell(t, "yes begin | head -n 100000 >&2; printf '\\377the end' >&2; exit 1", nil)
	err := s.handle(t, t.Context(), order(nil))
	if err == nil || len(err.Error()) > maxSaid+100 || !strings.HasSuffix(err.Error(), "?the end") {
		t.Errorf("a long stderr: %v", err)
	}
	if n := strings.Count(s.stderr.String(), "begin\n"); n != 100_000 {
		t.Errorf("%d of 100000 lines were passed on", n)
	}
}

func TestAKeyThatIsTooLargeIsOfNoUse(t *testing.T) {
	s := newShell(t, "exit 0", nil)
	err := s.handle(t, t.Context(), order(func(r *client.Record) { r.Key = bytes.Repeat([]byte("k"), 8<<20) }))
	if !errors.Is(err, syscall.E2BIG) || !strings.Contains(err.Error(), "too large for a command's environment") {
		t.Error(err)
	}
	if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", client.Permanent(err)) {
		t.Errorf("it would be tried again: %T", err)
	}
}

func TestNoSuchCommand(t *testing.T) {
	if _, err := NewCommand([]string{"no-such-command"}, CommandOptions{}); err == nil || !strings.Contains(err.Error(), "no-such-command") {
		t.Error(err)
	}
}

// alive reports whether the process whose id is in the file runs.
func alive(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ") // a zombie's parent has not looked yet
}

func TestARunThatIsEndedLeavesNothingBehind(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
	}{
		"it obeys":      {"sleep 100 & echo $! >$FILE; wait", time.Minute},
		"it is stuck":   {"trap '' TERM; sleep 100 & echo $! >$FILE; while :; do wait; done", 50 * time.Millisecond},
		"a child stays": {"(trap '' TERM; sleep 100 & echo $! >$FILE; while :; do wait; done) & wait", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			s := newShell(t, c.script, func(o *CommandOptions) { o.Grace, o.Env = c.grace, []string{"FILE=" + file} })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				until(t, "the script runs", func() bool { b, _ := os.ReadFile(file); return bytes.HasSuffix(b, []byte("\n")) })
				cancel()
			}()
			if err := s.handle(t, ctx, order(nil)); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			until(t, "its child is gone", func() bool { return !alive(t, file) })
		})
	}
}

func TestATimeoutEndsTheRun(t *testing.T) {
	s := newShell(t, "echo waiting >&2; sleep 100", func(o *CommandOptions) { o.Timeout = 200 * time.Millisecond })
	if err := s.handle(t, t.Context(), order(nil)); err == nil || !strings.HasPrefix(err.Error(), "not done in 200ms") {
		t.Error(err)
	}
}

// A command that ended well is done, whatever it left running.
func TestACommandIsDoneWhenItEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	s := newShell(t, "sleep 100 & echo $! >$FILE; echo done", func(o *CommandOptions) { o.Env = []string{"FILE=" + file} })
	if err := s.handle(t, t.Context(), order(nil)); err != nil || s.stdout.String() != "done\n" {
		t.Errorf("%v, %q", err, s.stdout.String())
	}
	until(t, "what it left is gone", func() bool { return !alive(t, file) })

	// One that is out of reach holds its output open.
	file = filepath.Join(t.TempDir(), "pid")
	s = newShell(t, "setsid sh -c 'echo $$ >$FILE; exec sleep 100' & until [ -s $FILE ]; do :; done; echo done", func(o *CommandOptions) { o.Env = []string{"FILE=" + file} })
	if err := s.handle(t, t.Context(), order(nil)); err != nil || s.stdout.String() != "done\n" {
		t.Errorf("%v, %q", err, s.stdout.String())
	}
	var pid int
	if b, err := os.ReadFile(file); err != nil || !alive(t, file) {
		t.Errorf("there was none: %v", err)
	} else if _, err := fmt.Sscan(string(b), &pid); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
