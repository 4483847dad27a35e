package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// one test of package p passes, another one is skipped.
const tests = `{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":0.1}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0.1}
`

const pass = tests + `{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"pass","Package":"p","Elapsed":0.3}
`

// testC is a test of package p that fails in a part.
const testC = `{"Action":"output","Package":"p","Test":"TestC/x","Output":"the reason\n"}
{"Action":"fail","Package":"p","Test":"TestC/x","Elapsed":0.1}
{"Action":"pass","Package":"p","Test":"TestC/y","Elapsed":0.1}
{"Action":"fail","Package":"p","Test":"TestC","Elapsed":0.1}
`

const failed = `{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p","Elapsed":0.1}
`

const died = `{"Action":"output","Package":"p","Output":"panic: x\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p","Elapsed":0.1}
`

const unbuilt = `{"ImportPath":"q","Action":"build-output","Output":"syntax error\n"}
{"ImportPath":"q","Action":"build-fail"}
{"Action":"fail","Package":"q","Elapsed":0,"FailedBuild":"q"}
`

func TestReport(t *testing.T) {
	for name, c := range map[string]struct {
		in     string
		want   []string // is printed
		status int
		file   string
	}{
		"passed":                   {pass, []string{"\n\n2 passed, 0 failed, 1 skipped\n"}, 0, "# besides 2 passed, 0 failed, 1 skipped\n"},
		"a test failed":            {tests + testC + failed, []string{"the reason", "\n\n3 passed, 2 failed, 1 skipped\n"}, 1, "# besides 2 passed, 0 failed, 1 skipped\nTestC p\n"},
		"a package does not build": {pass + unbuilt, []string{"syntax error", "\n\n2 passed, 1 failed, 1 skipped\n"}, 1, "# besides 2 passed, 0 failed, 1 skipped\nq\n"},
		"a package died in a test": {tests + testC + died, []string{"panic: x", "\n\n3 passed, 3 failed, 1 skipped\n"}, 1, "# besides 0 passed, 0 failed, 0 skipped\np\n"},
		"a package died after its tests": {tests + `{"Action":"output","Package":"p","Output":"PASS\n"}` + "\n" + died, []string{"panic: x", "\n\n2 passed, 1 failed, 1 skipped\n"}, 1,
			"# besides 0 passed, 0 failed, 0 skipped\np\n"},
		"both":    {tests + testC + failed + unbuilt, []string{"\n\n3 passed, 3 failed, 1 skipped\n"}, 1, "# besides 2 passed, 0 failed, 1 skipped\nTestC p\nq\n"},
		"no test": {"", []string{"0 passed"}, 1, "# besides 0 passed, 0 failed, 0 skipped\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			file := filepath.Join(t.TempDir(), "bin", "failed")
			got := report(strings.NewReader(c.in), &out, file)
			if got != c.status || slices.ContainsFunc(c.want, func(s string) bool { return !strings.Contains(out.String(), s) }) {
				t.Errorf("status %d, want %d; printed:\n%s", got, c.status, out.String())
			}
			if c.status == 0 && strings.Contains(out.String(), "quiet") {
				t.Error("printed the output of a test that passed")
			}
			if b, err := os.ReadFile(file); string(b) != c.file {
				t.Errorf("what failed is %q, want %q (%v)", b, c.file, err)
			}
		})
	}
}

func TestWhatFailedRunsAgain(t *testing.T) {
	passC := strings.ReplaceAll(testC, `"fail"`, `"pass"`)
	passP := strings.ReplaceAll(failed, "FAIL", "PASS")
	for name, c := range map[string]struct {
		before string
		runs   map[string]string // by package and tests
		want   []string          // is printed
		status int
		after  string
	}{
		"flaky": {"# besides 5 passed, 0 failed, 2 skipped\nTestC p\n", map[string]string{"p [TestC]": passC + strings.ReplaceAll(passP, `"fail"`, `"pass"`)},
			[]string{"== FLAKY: TestC p failed, and passed", "\n\n8 passed, 0 failed, 2 skipped\n"}, 0, "# besides 8 passed, 0 failed, 2 skipped\n"},
		"failed twice": {"# besides 5 passed, 0 failed, 2 skipped\nTestC p\n", map[string]string{"p [TestC]": testC + failed},
			[]string{"== failed twice: TestC p\n", "the reason", "\n\n6 passed, 2 failed, 2 skipped\n"}, 1, "# besides 5 passed, 0 failed, 2 skipped\nTestC p\n"},
		"one of two is flaky": {"# besides 5 passed, 0 failed, 2 skipped\nTestA p\nTestC p\n", map[string]string{"p [TestA TestC]": tests + testC + failed},
			[]string{"== FLAKY: TestA p failed", "== failed twice: TestC p\n", "\n\n8 passed, 2 failed, 3 skipped\n"}, 1, "# besides 7 passed, 0 failed, 3 skipped\nTestC p\n"},
		"a test died and took another with it": {"# besides 5 passed, 0 failed, 2 skipped\nTestC p\nTestD p\n", map[string]string{"p [TestC TestD]": testC + died},
			[]string{"== failed twice: TestC p\n", "== failed twice: TestD p\n", "\n\n6 passed, 4 failed, 2 skipped\n"}, 1, "# besides 5 passed, 0 failed, 2 skipped\nTestC p\nTestD p\n"},
		"a package is flaky": {"# besides 5 passed, 0 failed, 2 skipped\np\nq\n", map[string]string{"p []": pass, "q []": unbuilt},
			[]string{"== FLAKY: p failed", "== failed twice: q\n", "\n\n7 passed, 1 failed, 3 skipped\n"}, 1, "# besides 7 passed, 0 failed, 3 skipped\nq\n"},
		"of a package one test fails": {"# besides 5 passed, 0 failed, 2 skipped\np\n", map[string]string{"p []": tests + testC + failed},
			[]string{"== failed twice: p\n", "\n\n8 passed, 2 failed, 3 skipped\n"}, 1, "# besides 7 passed, 0 failed, 3 skipped\nTestC p\n"},
		"it does not run": {"# besides 5 passed, 0 failed, 2 skipped\nTestC p\nq\n", map[string]string{"p [TestC]": "", "q []": ""},
			[]string{"== failed twice: TestC p\n", "== failed twice: q\n", "\n\n5 passed, 2 failed, 2 skipped\n"}, 1, "# besides 5 passed, 0 failed, 2 skipped\nTestC p\nq\n"},
		"what failed is no test": {"# besides 5 passed, 0 failed, 2 skipped\n", nil, nil, 1, "# besides 5 passed, 0 failed, 2 skipped\n"},
		"the file is damaged":    {"TestC p\n", nil, nil, 1, "TestC p\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			file := filepath.Join(t.TempDir(), "failed")
			if err := os.WriteFile(file, []byte(c.before), 0o644); err != nil {
				t.Fatal(err)
			}
			got := repeat(file, func(w io.Writer, pkg string, tests []string) {
				run := fmt.Sprintf("%s %v", pkg, tests)
				if _, ok := c.runs[run]; !ok {
					t.Errorf("ran %s", run)
				}
				fmt.Fprint(w, c.runs[run])
				delete(c.runs, run)
			}, &out)
			if got != c.status || slices.ContainsFunc(c.want, func(s string) bool { return !strings.Contains(out.String(), s) }) {
				t.Errorf("status %d, want %d; printed:\n%s", got, c.status, out.String())
			}
			if len(c.runs) > 0 {
				t.Errorf("did not run %v", c.runs)
			}
			if b, err := os.ReadFile(file); string(b) != c.after {
				t.Errorf("what failed is %q, want %q (%v)", b, c.after, err)
			}
		})
	}
}
