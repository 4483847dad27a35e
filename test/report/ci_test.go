package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/test/harness"
)

// fakeMake stands in for make: the nth call for a target runs $DIR/TARGET.n.
const fakeMake = `#!/usr/bin/env bash
n=$(($(cat "$DIR/$1.calls" 2>/dev/null) + 1))
echo $n >"$DIR/$1.calls"
. "$DIR/$1.$n"
`

func TestContinuousIntegration(t *testing.T) {
	const (
		good  = "echo '5 passed, 0 failed, 1 skipped'"
		bad   = "echo '3 passed, 2 failed, 1 skipped'; exit 2"
		other = "echo 'lint: bad'; exit 2"
	)
	brokenCheck := func(list string) string { return "printf '" + list + `' >bin/failed-checks; ` + bad }
	for name, c := range map[string]struct {
		make   map[string]string // what the calls do
		want   []string          // is printed
		not    string            // is not printed
		last   string            // line
		status int
	}{
		"all passes": {map[string]string{"check.1": good, "test.1": good, "soak.1": good}, []string{"steps: 3 passed, 0 failed"}, "FLAKY", "15 passed, 0 failed, 3 skipped", 0},
		"a test is flaky": {map[string]string{"check.1": good, "test.1": bad, "test-again.1": "echo '== FLAKY: TestC p failed, and passed'; " + good, "soak.1": good},
			[]string{"steps: 3 passed, 0 failed\n== FLAKY: TestC p failed, and passed\n15 "}, "failed: test", "15 passed, 0 failed, 3 skipped", 0},
		"a test fails twice": {map[string]string{"check.1": good, "test.1": bad, "test-again.1": bad}, []string{"== failed: test\n", "steps: 1 passed, 1 failed\n"}, "FLAKY",
			"8 passed, 2 failed, 2 skipped", 1},
		"make test fails without a test": {map[string]string{"check.1": good, "test.1": other, "test-again.1": other}, []string{"== failed: test\n", "steps: 1 passed, 1 failed\n"}, "FLAKY",
			"5 passed, 1 failed, 1 skipped", 1},
		"go test dies": {map[string]string{"check.1": good, "test.1": "echo '5 passed, 0 failed, 1 skipped'; exit 2", "test-again.1": other}, []string{"== failed: test\n"}, "FLAKY",
			"10 passed, 1 failed, 2 skipped", 1},
		"a check is flaky": {map[string]string{"check.1": brokenCheck(`# besides\nTestC p\nq\n`), "check.2": `printf '# besides\n' >bin/failed-checks; ` + good, "test.1": good, "soak.1": good},
			[]string{"steps: 3 passed, 0 failed\n== FLAKY: TestC p failed, and passed when it ran once more\n== FLAKY: q failed, and passed when it ran once more\n15 "}, "failed: check",
			"15 passed, 0 failed, 3 skipped", 0},
		"one of two checks is flaky": {map[string]string{"check.1": brokenCheck(`# besides\nTestC p\nTestD p\n`), "check.2": brokenCheck(`# besides\nTestD p\n`), "test.1": good},
			[]string{"== failed: check\n", "steps: 1 passed, 1 failed\n== FLAKY: TestC p failed, and passed when it ran once more\n8 "}, "FLAKY: TestD", "8 passed, 2 failed, 2 skipped", 1},
		"no test of make check fails": {map[string]string{"check.1": other, "check.2": other, "test.1": good}, []string{"== failed: check\n"}, "FLAKY", "5 passed, 1 failed, 1 skipped", 1},
		"a tool of make check is flaky": {map[string]string{"check.1": other, "check.2": `printf '# besides\n' >bin/failed-checks; ` + good, "test.1": good, "soak.1": good},
			[]string{"== FLAKY: make check"}, "failed: check", "15 passed, 0 failed, 3 skipped", 0},
		"a check's second run does not come to the tests": {map[string]string{"check.1": brokenCheck(`# besides\nTestC p\n`), "check.2": other, "test.1": good},
			[]string{"== failed: check\n"}, "FLAKY", "8 passed, 2 failed, 2 skipped", 1},
		"the soak fails": {map[string]string{"check.1": good, "test.1": good, "soak.1": bad}, []string{"== failed: soak\n", "steps: 2 passed, 1 failed\n"}, "FLAKY", "13 passed, 2 failed, 3 skipped", 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script, err := os.ReadFile(filepath.Join(harness.Root(), ".ci", "run"))
			if err != nil {
				t.Fatal(err)
			}
			c.make["../.ci/run"], c.make["make"] = string(script), fakeMake
			for file, text := range c.make {
				file = filepath.Join(dir, "calls", file)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(filepath.Join(dir, ".ci", "run"))
			cmd.Env = append(os.Environ(), "DIR="+filepath.Join(dir, "calls"), "PATH="+filepath.Join(dir, "calls")+":"+os.Getenv("PATH"))
			b, _ := cmd.CombinedOutput()
			out := string(b)
			if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.HasSuffix(out, "\n"+c.last+"\n") || strings.Contains(out, c.not) {
				t.Errorf("status %d, want %d; the last line should be %q and nothing say %q:\n%s", got, c.status, c.last, c.not, out)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("does not print %q:\n%s", want, out)
				}
			}
		})
	}
}
