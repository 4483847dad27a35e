package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// needs says for each tool what has to be installed.
var needs = map[string]string{
	"bash":    "bash",
	"java":    "Java 17 (Debian: openjdk-17-jdk-headless)",
	"javac":   "Java 17 (Debian: openjdk-17-jdk-headless)",
	"mvn":     "Maven (Debian: maven)",
	"node":    "Node.js 20 or newer (Debian: nodejs)",
	"npm":     "npm (Debian: npm)",
	"python3": "Python 3.9 or newer with venv (Debian: python3-venv)",
	"go":      "Go 1.26",
}

// Need skips the test under -short, and fails it when one of the tools is not installed.
func Need(t testing.TB, tools ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs processes of their own; not run with -short")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			what := needs[tool]
			if what == "" {
				what = tool
			}
			t.Fatalf("this test needs %q: install %s", tool, what)
		}
	}
}

// Root is the folder of the module.
var Root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(dir, "go.mod")); e == nil {
			return dir
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		break
	}
	panic("harness: no go.mod above the working directory")
})

// OnlyWith skips the test unless the environment variable is set: for long rounds (TANDEM_SOAK) and for proofs of the tests themselves.
func OnlyWith(t testing.TB, variable, why string) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skipf("%s: set %s=1 to run it", why, variable)
	}
}

// Soak returns for how long a soak test may run: its share, in percent, of the minutes in $SOAK_MINUTES. Outside `make soak` it skips the
// test. A repository rule keeps the sum of all shares at 100 or less.
func Soak(t testing.TB, share int) time.Duration {
	t.Helper()
	OnlyWith(t, "TANDEM_SOAK", "a long round")
	minutes, err := strconv.Atoi(os.Getenv("SOAK_MINUTES"))
	if err != nil {
		t.Fatalf("SOAK_MINUTES=%q: want a number", os.Getenv("SOAK_MINUTES"))
	}
	return time.Duration(minutes) * time.Minute * time.Duration(share) / 100
}

// Until returns a function that says whether a limit from now on has not passed yet.
func Until(limit time.Duration) func() bool {
	end := time.Now().Add(limit)
	return func() bool { return time.Now().Before(end) }
}
