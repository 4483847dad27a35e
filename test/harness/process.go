package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a child process with its output in files.
type Process struct {
	Name    string
	Out     string // file of its standard output
	Err     string // file of its standard error
	cmd     *exec.Cmd
	exited  chan struct{}
	failure error
}

// Start starts a command whose output goes to DIR/NAME.out and DIR/NAME.err, DIR being a temporary folder of the test. When the test
// ends the process is killed; when the test has failed the ends of both files are logged.
func Start(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	base := filepath.Join(t.TempDir(), strings.ReplaceAll(name, "/", "-"))
	p := &Process{Name: name, Out: base + ".out", Err: base + ".err", cmd: cmd, exited: make(chan struct{})}
	var files []*os.File
	for _, path := range []string{p.Out, p.Err} {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	cmd.Stdout, cmd.Stderr = files[0], files[1]
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, f := range files {
		_ = f.Close()
	}
	reap("+ %d", cmd.Process.Pid)
	go func() {
		p.failure = cmd.Wait()
		reap("- %d", cmd.Process.Pid)
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("end of the standard output of %s:\n%s", name, tail(p.Out, 2000))
			t.Logf("end of the standard error of %s:\n%s", name, tail(p.Err, 6000))
		}
	})
	return p
}

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process with SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Pause stops the process with SIGSTOP until Continue.
func (p *Process) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue lets a paused process go on.
func (p *Process) Continue() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Term sends SIGTERM and waits for the end, at most for limit. The error is nil when the process exited with 0, or with 143 as a JVM
// does after SIGTERM.
func (p *Process) Term(limit time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	err := p.Wait(limit)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 143 {
		return nil
	}
	return err
}

// Wait waits for the end of the process, at most for limit; then it kills it and says so in the error. A process that exits with
// something else than 0 gives an *exec.ExitError.
func (p *Process) Wait(limit time.Duration) error {
	select {
	case <-p.exited:
		return p.failure
	case <-time.After(limit):
		p.Kill()
		return fmt.Errorf("%s did not end in %v", p.Name, limit)
	}
}

// Running says whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Output is all that the process has written to its standard output so far.
func (p *Process) Output() string { return tail(p.Out, 1<<30) }

// Log is all that the process has written to its standard error so far.
func (p *Process) Log() string { return tail(p.Err, 1<<30) }

// CPU is the time that the process has used, user and system. It is known when the process has ended.
func (p *Process) CPU() time.Duration {
	<-p.exited
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-n), io.SeekStart)
	}
	b, _ := io.ReadAll(f)
	return string(bytes.TrimRight(b, "\n"))
}

// Eventually calls done until it returns nil, and fails the test with the last error after limit. It asks less often the longer it takes: a question may
// cost more than the answer is awaited for.
func Eventually(t testing.TB, limit time.Duration, done func() error) {
	t.Helper()
	start := time.Now()
	deadline := start.Add(limit)
	for {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %v", limit, err)
		}
		time.Sleep(min(max(20*time.Millisecond, time.Since(start)/10), 100*time.Millisecond))
	}
}

// CPU is the CPU time of a process so far; 0 where there is no Linux to tell.
func CPU(t testing.TB, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100) // the kernel's USER_HZ
}

// reaper is a shell that kills what this process has started when this process dies without its clean-up (a panic, a time limit, SIGKILL).
var reaper = sync.OnceValue(func() io.Writer {
	cmd := exec.Command("bash", "-c", `
		declare -A pids dirs
		while read -r op what; do
			case $op in
			+) pids[$what]=1 ;; -) unset "pids[$what]" ;;
			+d) dirs[$what]=1 ;; -d) unset "dirs[$what]" ;;
			esac
		done
		for d in "${!dirs[@]}"; do for p in "$d"/node*/pid; do kill -9 "$(cat "$p")"; done; rm -rf "$d"; done
		for p in "${!pids[@]}"; do kill -9 "$p"; done`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return io.Discard
	}
	return in
})

var reaping sync.Mutex

func reap(format string, args ...any) {
	reaping.Lock()
	defer reaping.Unlock()
	_, _ = fmt.Fprintf(reaper(), format+"\n", args...)
}
