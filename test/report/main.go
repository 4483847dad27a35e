// Command report reads the output of `go test -json` and prints one line for each package, all output of the tests that failed, the
// slowest tests, and a closing line "N passed, N failed, N skipped". It exits with 1 when something failed or no test ran.
//
//	report [-failed FILE]   the output is on the standard input; what failed is written to FILE
//	report -again FILE      runs what FILE says once more, and writes to it what failed twice; the closing line is that of both runs together
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
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

func main() {
	failed := flag.String("failed", "", "file to write what failed to")
	again := flag.String("again", "", "file with what failed, to run once more")
	flag.Parse()
	if *again != "" {
		os.Exit(repeat(*again, goTest, os.Stdout))
	}
	os.Exit(report(os.Stdin, os.Stdout, *failed))
}

func report(in io.Reader, out io.Writer, failed string) int {
	r := read(in, out)
	if failed != "" {
		broken := r.broken("")
		if err := write(failed, broken, r.besides(broken)); err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
			return 1
		}
	}
	return conclude(out, r.total())
}

// conclude prints the closing line.
func conclude(out io.Writer, c counts) int {
	fmt.Fprintf(out, "\n%v\n", c)
	if c.failed > 0 || c.passed == 0 {
		return 1
	}
	return 0
}

// read takes in the output of `go test -json` and prints everything but the closing line.
func read(in io.Reader, out io.Writer) results {
	r := results{}
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
			r.add(e)
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
				fmt.Fprint(out, output[id])
				continue
			default:
				continue
			}
			switch {
			case e.Test == "" && e.Action == "fail":
				for _, other := range slices.Sorted(maps.Keys(output)) {
					if strings.HasPrefix(other, e.Package+" Test") { // which has the reason, if the package died or took too long
						fmt.Fprintf(out, "--- did not end: %s\n%s", other, output[other])
						delete(output, other)
					}
				}
				fmt.Fprintf(out, "FAIL  %s  %.1fs\n%s", e.Package, e.Elapsed, output[id])
			case e.Test == "":
				fmt.Fprintf(out, "%-5s %s  %.1fs\n", map[string]string{"pass": "ok", "skip": "-"}[e.Action], e.Package, e.Elapsed)
			case e.Action == "fail":
				fmt.Fprintf(out, "--- failed: %s\n%s", id, output[id])
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
	return r
}
