package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// result is a table that was measured.
type result struct {
	Name    string     `json:"name"`
	Title   string     `json:"title"`
	Head    []string   `json:"head"`
	Rows    [][]string `json:"rows"`
	Notes   []string   `json:"notes,omitempty"`
	Machine string     `json:"machine"`
	Commit  string     `json:"commit"`
	Load    string     `json:"load"` // load average before it: what else ran on the machine
	Date    string     `json:"date"`
	Seconds float64    `json:"seconds"`
}

func (r *result) row(cells ...string) { r.Rows = append(r.Rows, cells) }
func (r *result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *result) markdown() string {
	var s strings.Builder
	line := func(cells []string) { fmt.Fprintf(&s, "| %s |\n", strings.Join(cells, " | ")) }
	line(r.Head)
	rule := make([]string, len(r.Head))
	for i := range rule {
		rule[i] = "---"
		if i > 0 {
			rule[i] = "---:"
		}
	}
	line(rule)
	for _, row := range r.Rows {
		line(row)
	}
	s.WriteString("\n")
	for _, n := range r.Notes {
		fmt.Fprintf(&s, "%s\n", n)
	}
	if len(r.Notes) > 0 {
		s.WriteString("\n")
	}
	fmt.Fprintf(&s, "Measured %s on %s; commit %s; load average before it %s.\n", r.Date, r.Machine, r.Commit, r.Load)
	return s.String()
}

// text is the table for a terminal.
func (r *result) text() string {
	width := make([]int, len(r.Head))
	for _, row := range append([][]string{r.Head}, r.Rows...) {
		for i, c := range row {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	var s strings.Builder
	fmt.Fprintf(&s, "\n%s\n", r.Title)
	for _, row := range append([][]string{r.Head}, r.Rows...) {
		for i, c := range row {
			if i == 0 {
				fmt.Fprintf(&s, "%-*s", width[i], c)
			} else {
				fmt.Fprintf(&s, "  %*s", width[i], c)
			}
		}
		s.WriteString("\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintln(&s, n)
	}
	return s.String()
}

func (b *bench) resultsFile() string { return filepath.Join(b.root, "bench", "results.json") }

func (b *bench) results() (all []*result, err error) {
	text, err := os.ReadFile(b.resultsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(text, &all)
}

// save puts a table in the place of its last measurement.
func (b *bench) save(r *result) error {
	all, err := b.results()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(old *result) bool { return old.Name == r.Name })
	all = append(all, r)
	slices.SortFunc(all, func(a, b *result) int { return place(a.Name) - place(b.Name) })
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.resultsFile(), append(text, '\n'), 0o644)
}

func place(name string) int {
	return slices.IndexFunc(tables, func(t table) bool { return t.name == name })
}

// render writes the tables into docs/benchmarks.md, each between its markers.
func (b *bench) render() error {
	all, err := b.results()
	if err != nil {
		return err
	}
	file := filepath.Join(b.root, "docs", "benchmarks.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	page := string(text)
	for _, r := range all {
		begin, end := fmt.Sprintf("<!-- table %s: written by make bench -->\n", r.Name), fmt.Sprintf("<!-- end of table %s -->\n", r.Name)
		head, rest, ok := strings.Cut(page, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !ok || !closed {
			return fmt.Errorf("%s has no place for the table %s: it needs the lines %q and %q", file, r.Name, begin, end)
		}
		page = head + begin + r.markdown() + end + tail
	}
	return os.WriteFile(file, []byte(page), 0o644)
}

func describeMachine() string {
	model := "unknown CPU"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	memory := 0.0
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			memory, _ = strconv.ParseFloat(f[1], 64)
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d cores of %s, %.0f GB, Linux %s, %s", runtime.NumCPU(), model, memory/1e6, strings.TrimSpace(string(kernel)), runtime.Version())
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(b)); err == nil && len(f) > 0 {
		return f[0]
	}
	return "unknown"
}

// median of some numbers; 0 of none.
func median(v []float64) float64 { return quantile(v, 0.5) }

func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	at := q * float64(len(v)-1)
	low := int(at)
	if low+1 >= len(v) {
		return v[low]
	}
	return v[low] + (v[low+1]-v[low])*(at-float64(low))
}

// verdict is "target, met or not".
func verdict(met bool, target string) string {
	if met {
		return target + " ✓"
	}
	return target + " ✗"
}

// ratios divides the turns of two sides pairwise and gives the median: a slow moment of the machine hits both.
func ratio(a, b []float64) float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		all = append(all, a[i]/b[i])
	}
	return median(all)
}
