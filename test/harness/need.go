package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
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
