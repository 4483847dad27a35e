package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const pass = `{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0.1}
{"Action":"pass","Package":"p","Elapsed":0.3}
`
	for name, c := range map[string]struct {
		in, want string
		status   int
	}{
		"passed": {pass, "\n1 passed, 0 failed, 1 skipped\n", 0},
		"a test failed": {pass + `{"Action":"output","Package":"p","Test":"TestC","Output":"the reason\n"}
{"Action":"fail","Package":"p","Test":"TestC","Elapsed":0.1}
{"Action":"fail","Package":"p","Elapsed":0.1}
`, "the reason", 1},
		"a package does not build": {pass + `{"ImportPath":"q","Action":"build-output","Output":"syntax error\n"}
{"ImportPath":"q","Action":"build-fail"}
{"Action":"fail","Package":"q","Elapsed":0,"FailedBuild":"q"}
`, "syntax error", 1},
		"a package died": {pass + `{"Action":"output","Package":"q","Output":"panic: x\n"}
{"Action":"fail","Package":"q","Elapsed":0.1}
`, "panic: x", 1},
		"no test": {"", "0 passed", 1},
	} {
		var out strings.Builder
		if got := report(strings.NewReader(c.in), &out); got != c.status || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: status %d, want %d; printed:\n%s", name, got, c.status, out.String())
		}
		if c.status == 0 && strings.Contains(out.String(), "quiet") {
			t.Errorf("%s: printed the output of a test that passed", name)
		}
	}
}
