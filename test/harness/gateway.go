package harness

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// GatewayConfig says how `tandem serve` is started.
type GatewayConfig struct {
	Kafka  string   // bootstrap list of the cluster behind; empty: the embedded engine
	Data   string   // folder of the embedded engine; empty: a temporary one, kept over Kill and Start
	YAML   string   // text of a config file; empty: none
	Args   []string // more flags
	Env    []string // more environment
	Listen int      // first port; 0: one found by Ports, with room for 16 brokers
}

// Gateway is a `tandem serve` of its own binary in its own process.
type Gateway struct {
	Bootstrap string // HOST:PORT for clients
	Admin     string // HOST:PORT of /healthz, /readyz and /metrics
	args, env []string
	process   *Process
	logs      []string // files of the earlier runs
	runs      int
}

// StartGateway starts a gateway and waits until clients may connect. It is killed at the end of the test.
func StartGateway(t testing.TB, c GatewayConfig) *Gateway {
	t.Helper()
	g := NewGateway(t, c)
	g.Start(t)
	return g
}

// NewGateway prepares a gateway without starting it.
func NewGateway(t testing.TB, c GatewayConfig) *Gateway {
	t.Helper()
	Need(t, "go", "bash")
	if c.Listen == 0 {
		c.Listen = Ports(t, 18)
	}
	g := &Gateway{Bootstrap: fmt.Sprintf("127.0.0.1:%d", c.Listen+1), Admin: fmt.Sprintf("127.0.0.1:%d", c.Listen), env: c.Env}
	g.args = append([]string{"serve", "--listen", g.Bootstrap, "--admin", g.Admin}, c.Args...)
	if c.Kafka != "" {
		g.args = append(g.args, "--kafka", c.Kafka)
	} else {
		if c.Data == "" {
			c.Data = filepath.Join(t.TempDir(), "data")
		}
		g.args = append(g.args, "--data", c.Data)
	}
	if c.YAML != "" {
		file := filepath.Join(t.TempDir(), "tandem.yaml")
		if err := os.WriteFile(file, []byte(c.YAML), 0o600); err != nil {
			t.Fatal(err)
		}
		g.args = append(g.args, "--config", file)
	}
	return g
}

// Start starts the gateway (again, on the same ports) and waits until it prints that clients may connect.
func (g *Gateway) Start(t testing.TB) {
	t.Helper()
	if g.process != nil {
		g.logs = append(g.logs, g.process.Err)
	}
	g.runs++
	cmd := exec.Command(Binary(t), g.args...)
	cmd.Env = append(os.Environ(), g.env...)
	g.process = Start(t, fmt.Sprintf("tandem-%s-%d", g.Bootstrap, g.runs), cmd)
	deadline := time.Now().Add(30 * time.Second)
	for {
		if _, ok := g.ready(); ok {
			return
		}
		if !g.process.Running() {
			t.Fatalf("tandem %s ended at once: %v\n%s\n%s", strings.Join(g.args, " "), g.process.Wait(0), g.process.Output(), g.process.Log())
		}
		if time.Now().After(deadline) {
			t.Fatalf("tandem %s is not ready after 30 s:\n%s\n%s", strings.Join(g.args, " "), g.process.Output(), g.process.Log())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (g *Gateway) ready() (string, bool) {
	s := bufio.NewScanner(strings.NewReader(g.process.Output()))
	for s.Scan() {
		if rest, ok := strings.CutPrefix(s.Text(), "ready: bootstrap "); ok {
			return strings.Fields(rest + " -")[0], true
		}
	}
	return "", false
}

// Kill ends the gateway with SIGKILL.
func (g *Gateway) Kill() { g.process.Kill() }

// Stop sends SIGTERM and fails the test when the gateway does not exit with 0 within 15 s.
func (g *Gateway) Stop(t testing.TB) {
	t.Helper()
	if err := g.process.Term(15 * time.Second); err != nil {
		t.Fatalf("tandem after SIGTERM: %v\n%s", err, tail(g.process.Err, 4000))
	}
}

// Process is the current run.
func (g *Gateway) Process() *Process { return g.process }

// Log is what all runs have logged.
func (g *Gateway) Log() string {
	var all []string
	for _, f := range append(g.logs, g.process.Err) {
		all = append(all, tail(f, 1<<30))
	}
	return strings.Join(all, "\n")
}

var built struct {
	sync.Mutex
	paths map[string]string
}

// Binary builds bin/tandem, once in a test process, and returns its path. $TANDEM_BIN names a binary to use instead; with $TANDEM_RACE
// the race detector is built in.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("TANDEM_BIN"); path != "" {
		return path
	}
	return program(t, "tandem", "./cmd/tandem")
}

// StartProgram starts one of the repository's programs, for example "cooperative-worker" of "./examples/cooperative-worker".
func StartProgram(t testing.TB, name, source string, args ...string) *Process {
	t.Helper()
	return Start(t, name, exec.Command(program(t, name, source), args...))
}

// program builds one of the repository's programs into bin, once in a test process, and returns its path.
func program(t testing.TB, name, source string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if path := built.paths[name]; path != "" {
		return path
	}
	bin := filepath.Join(Root(), "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(bin, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	// Another package's test may be running the old file: put the new one in its place in one step.
	path := filepath.Join(bin, name)
	_ = os.Remove(path + ".new")
	_ = os.Link(path, path+".new") // what is there need not be linked again, if nothing has changed
	args := []string{"build", "-o", path + ".new"}
	if os.Getenv("TANDEM_RACE") != "" {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, source)...)
	cmd.Dir = Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(cmd.Args[1:], " "), err, out)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if built.paths == nil {
		built.paths = map[string]string{}
	}
	built.paths[name] = path
	return path
}

// Tandem runs the binary with other arguments, for example "view", "list", and returns what it printed to standard output.
func Tandem(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("tandem %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return string(out), err
}
