package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// counts is how many tests, subtests included, ended in which way. A package that broke outside of its tests counts as one that failed.
type counts struct{ passed, failed, skipped int }

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func (c counts) plus(d counts) counts {
	return counts{c.passed + d.passed, c.failed + d.failed, c.skipped + d.skipped}
}

// item is what is run again as one: a test with its subtests, or a package whose tests did not all run (no name).
type item struct{ test, pkg string }

func (i item) String() string { return strings.TrimSpace(i.test + " " + i.pkg) }

// outcome is what became of a test with its subtests, or of a package as such.
type outcome struct {
	counts
	action  string // the last one: pass, fail or skip; "" while it runs
	orderly bool   // of a package: its test program came to its end
}

// results has the outcome of every test and every package.
type results map[item]*outcome

func (r results) of(i item) *outcome {
	if r[i] == nil {
		r[i] = &outcome{}
	}
	return r[i]
}

func (r results) add(e event) {
	if e.Package == "" {
		return
	}
	top, _, sub := strings.Cut(e.Test, "/")
	o := r.of(item{top, e.Package})
	switch {
	case e.Test == "" && e.Action == "output" && (e.Output == "FAIL\n" || e.Output == "PASS\n"):
		o.orderly = true
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		return
	case e.Test != "":
		switch e.Action {
		case "pass":
			o.passed++
		case "fail":
			o.failed++
		case "skip":
			o.skipped++
		}
	}
	if !sub && e.Action != "output" {
		o.action = e.Action
	}
}

// whole says whether a package broke outside of its tests: it did not build, or its test program died, so that some tests did not run.
func (r results) whole(pkg string) bool {
	p := r[item{"", pkg}]
	if p == nil || p.action != "fail" {
		return false
	}
	for i, o := range r {
		if i.pkg == pkg && i.test != "" && o.action == "fail" && p.orderly {
			return false
		}
	}
	return true
}

// broken is what failed, in order: of one package, or of all (no name).
func (r results) broken(pkg string) []item {
	var list []item
	for i, o := range r {
		if o.action == "fail" && (pkg == "" || i.pkg == pkg) && (i.test == "") == r.whole(i.pkg) {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b item) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test)) })
	return list
}

// besides counts what is not among some items.
func (r results) besides(items []item) (c counts) {
	for i, o := range r {
		if !slices.Contains(items, i) && !slices.Contains(items, item{"", i.pkg}) {
			c = c.plus(o.counts)
		}
	}
	return c
}

func (r results) total() (c counts) {
	for o := range maps.Values(r) {
		c = c.plus(o.counts)
	}
	for i := range r {
		if i.test == "" && r.whole(i.pkg) {
			c.failed++
		}
	}
	return c
}
