package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// ClientProcess is a running client of the kit in test/clients.
type ClientProcess struct {
	*Process
	read int // bytes of the output that Collect has taken
}

var installed struct {
	sync.Once
	failure string
}

// InstallClients installs the kit's clients, unless they are installed already. It is quick then.
func InstallClients(t testing.TB) {
	t.Helper()
	Need(t, "bash", "go", "java", "javac", "mvn", "node", "npm", "python3")
	installed.Do(func() {
		if out, err := exec.Command(filepath.Join(Root(), "test", "clients", "setup")).CombinedOutput(); err != nil {
			installed.failure = fmt.Sprintf("test/clients/setup: %v\n%s", err, out)
		}
	})
	if installed.failure != "" {
		t.Fatal(installed.failure)
	}
}

// StartClient starts a client of the kit by its name ("java", "confluent-kafka", ...; see test/clients/client) with the kit's options,
// for example "--bootstrap", b, "--topic", t, "--group", g.
func StartClient(t testing.TB, name string, args ...string) *ClientProcess {
	t.Helper()
	InstallClients(t)
	cmd := exec.Command(filepath.Join(Root(), "test", "clients", "client"), append([]string{name}, args...)...)
	return &ClientProcess{Process: Start(t, name, cmd)}
}

// Collect enters what the client has printed since the last call into the ledger, and returns how many records that were.
func (c *ClientProcess) Collect(t testing.TB, l *Ledger) int {
	t.Helper()
	b, err := os.ReadFile(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		line, rest, whole := strings.Cut(string(b[c.read:]), "\n")
		if !whole {
			return n
		}
		c.read = len(b) - len(rest)
		var r struct {
			Event     string
			Member    int64
			Partition int32
			Offset    int64
			Value     string
			Start     int64 `json:"t_start"`
			End       int64 `json:"t_end"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s printed %q: %v", c.Name, line, err)
		}
		if r.Event != "" {
			continue
		}
		n++
		l.Delivered(Delivery{Member: fmt.Sprintf("%s-%d", c.Name, r.Member), Partition: r.Partition, Offset: r.Offset, N: number([]byte(r.Value)),
			Start: time.UnixMilli(r.Start), End: time.UnixMilli(r.End)})
	}
}

// Matrix runs test/clients/run-matrix with the given options and fails the test when a row failed; the rows are logged. What the members
// printed stays in $CLIENTS_HOME/run/NAME-OF-THE-TEST until the next run.
func Matrix(t testing.TB, args ...string) {
	t.Helper()
	InstallClients(t)
	label := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	cmd := exec.Command(filepath.Join(Root(), "test", "clients", "run-matrix"), append(args, "--label", label)...)
	p := Start(t, "run-matrix", cmd)
	err := p.Wait(20 * time.Minute)
	t.Logf("%s\n%s", p.Output(), p.Log())
	if err != nil {
		t.Errorf("run-matrix: %v", err)
	}
}
