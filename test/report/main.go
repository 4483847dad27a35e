// Command report reads the output of `go test -json` and prints one line for each package, all output of the tests that failed, the
// slowest tests, and a closing line "N passed, N failed, N skipped". It exits with 1 when something failed or no test ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

// event is a line of `go test -json` (cmd/test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

func main() { os.Exit(report(os.Stdin, os.Stdout)) }

func report(in io.Reader, out io.Writer) int {
	passed, failed, skipped, broken := 0, 0, 0, 0
	output := map[string]*strings.Builder{}
	var slow []event
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(out, line)
				continue
			}
			id := e.Package + e.ImportPath + " " + e.Test
			if output[id] == nil {
				output[id] = &strings.Builder{}
			}
			switch e.Action {
			case "output", "build-output":
				output[id].WriteString(e.Output)
				continue
			case "pass", "fail", "skip":
			case "build-fail":
				broken++
				fmt.Fprint(out, output[id])
				continue
			default:
				continue
			}
			switch {
			case e.Test == "" && e.Action == "fail":
				fmt.Fprintf(out, "FAIL  %s  %.1fs\n%s", e.Package, e.Elapsed, output[id])
				broken++
			case e.Test == "":
				fmt.Fprintf(out, "%-5s %s  %.1fs\n", map[string]string{"pass": "ok", "skip": "-"}[e.Action], e.Package, e.Elapsed)
			case e.Action == "fail":
				failed++
				fmt.Fprintf(out, "--- failed: %s\n%s", id, output[id])
			case e.Action == "skip":
				skipped++
			default:
				passed++
			}
			if e.Test != "" && e.Elapsed > 10 && !strings.Contains(e.Test, "/") {
				slow = append(slow, e)
			}
			delete(output, id)
		}
		if err != nil {
			break
		}
	}
	sort.Slice(slow, func(i, j int) bool { return slow[i].Elapsed > slow[j].Elapsed })
	for _, e := range slow[:min(len(slow), 15)] {
		fmt.Fprintf(out, "slow: %6.1fs %s %s\n", e.Elapsed, e.Package, e.Test)
	}
	if failed == 0 {
		failed = broken // a package that does not build, or that died outside a test
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 || passed == 0 {
		return 1
	}
	return 0
}
