package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// besidesLine begins the file of what failed. A line for each item follows.
const besidesLine = "# besides %d passed, %d failed, %d skipped"

func write(file string, broken []item, besides counts) error {
	var b strings.Builder
	fmt.Fprintf(&b, besidesLine+"\n", besides.passed, besides.failed, besides.skipped)
	for _, i := range broken {
		fmt.Fprintln(&b, i)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

func load(file string) (broken []item, besides counts, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, counts{}, err
	}
	first, rest, _ := strings.Cut(string(b), "\n")
	if _, err := fmt.Sscanf(first, besidesLine, &besides.passed, &besides.failed, &besides.skipped); err != nil {
		return nil, counts{}, fmt.Errorf("%s: %w", file, err)
	}
	for line := range strings.Lines(rest) {
		switch f := strings.Fields(line); len(f) {
		case 1:
			broken = append(broken, item{"", f[0]})
		case 2:
			broken = append(broken, item{f[0], f[1]})
		default:
			return nil, counts{}, fmt.Errorf("%s: line %q", file, line)
		}
	}
	return broken, besides, nil
}

// goTest runs some tests of a package, or all of them, and gives the output of `go test -json`.
func goTest(out io.Writer, pkg string, tests []string) {
	args := []string{"test", "-json", "-count=1", "-timeout", "15m"}
	if len(tests) > 0 {
		args = append(args, "-run", "^("+strings.Join(tests, "|")+")$")
	}
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		fmt.Fprintln(os.Stderr, "report:", err) // what did not run counts as failed
	}
}

// repeat runs what failed once more, package by package. What passes now is flaky, and what fails again is left in the file.
func repeat(file string, run func(out io.Writer, pkg string, tests []string), out io.Writer) int {
	before, besides, err := load(file)
	if err == nil && len(before) == 0 {
		err = fmt.Errorf("%s names no test: there is nothing to run again, what failed was something else", file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		return 1
	}
	var packages []string
	tests := map[string][]string{}
	for _, i := range before {
		if _, known := tests[i.pkg]; !known {
			packages, tests[i.pkg] = append(packages, i.pkg), nil
		}
		if i.test != "" {
			tests[i.pkg] = append(tests[i.pkg], i.test)
		}
	}
	in, output := io.Pipe()
	go func() {
		for _, p := range packages {
			run(output, p, tests[p])
		}
		_ = output.Close()
	}()
	r := read(in, out)
	for _, i := range before {
		if o := r.of(i); o.action == "" || o.action == "skip" { // it did not come to it
			if o.action = "fail"; i.test != "" {
				o.failed++
			}
		}
	}
	var left []item
	for _, i := range before {
		switch {
		case r[i].action == "pass":
			fmt.Fprintf(out, "== FLAKY: %v failed, and passed when it ran once more\n", i)
			continue
		case i.test != "":
			left = append(left, i)
		default: // of a package, what failed in it now
			left = append(left, r.broken(i.pkg)...)
		}
		fmt.Fprintf(out, "== failed twice: %v\n", i)
	}
	if err := write(file, left, besides.plus(r.besides(left))); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		return 1
	}
	return conclude(out, besides.plus(r.total()))
}
