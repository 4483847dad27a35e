package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every table has its place in docs/benchmarks.md, or make bench would measure for long and then fail.
func TestEveryTableHasItsPlace(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if !strings.Contains(string(page), "<!-- table "+table.name+": written by make bench -->\n") || !strings.Contains(string(page), "<!-- end of table "+table.name+" -->\n") {
			t.Errorf("docs/benchmarks.md has no markers for the table %s", table.name)
		}
	}
}

// benchInFolder has a repository without anything.
func benchInFolder(t *testing.T) *bench {
	t.Helper()
	b := &bench{root: t.TempDir()}
	for _, dir := range []string{"bench", "docs"} {
		if err := os.Mkdir(filepath.Join(b.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestSavedTablesAreRendered(t *testing.T) {
	b := benchInFolder(t)
	file := filepath.Join(b.root, "docs", "benchmarks.md")
	const before = "prose\n<!-- table hop: written by make bench -->\nold\n<!-- end of table hop -->\nmore prose\n"
	if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"1", "2"} { // the second replaces the first
		if err := b.save(&result{Name: "hop", Head: []string{"what", "value"}, Rows: [][]string{{"x", value}}, Machine: "two cores", Commit: "abc", Date: "today", Load: "0.1"}); err != nil {
			t.Fatal(err)
		}
		if err := b.render(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "prose\n<!-- table hop: written by make bench -->\n| what | value |\n| --- | ---: |\n| x | 2 |\n\n" +
		"Measured today on two cores; commit abc; load average before it 0.1.\n<!-- end of table hop -->\nmore prose\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := b.save(&result{Name: "view"}); err != nil {
		t.Fatal(err)
	}
	if err := b.render(); err == nil {
		t.Error("a table without a place was rendered")
	}
}

func TestQuantiles(t *testing.T) {
	v := []float64{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 1: 4} {
		if got := quantile(v, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	// A slow turn of both sides leaves their ratio as it is.
	if got := ratio([]float64{9, 0.9, 9}, []float64{10, 1, 10}); got != 0.9 {
		t.Errorf("ratio %v, want 0.9", got)
	}
	n := 0
	for m := range 3 {
		n += len(dealt(16, m, 3))
	}
	if n != 16 {
		t.Errorf("%d of 16 partitions were dealt out", n)
	}
}
