package simtest

import (
	"bytes"
	"flag"
	"os"
	"strconv"
	"testing"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "play this seed only, and print its history")
	stepsFlag = flag.Int("steps", steps, "with -seed: how long the history is")
	fromFlag  = flag.Uint64("from", 1, "the first seed")
	seedsFlag = flag.Int("seeds", 3000, "how many seeds")
)

const (
	// steps of a history; a violation is looked for with fewer, too.
	steps = 200
	// maxFailures is how many failing seeds are shown before the rest is not played.
	maxFailures = 20
)

// shortest is the fewest steps after which this seed's history fails: a history of n steps begins like one of more.
func shortest(seed uint64, err error) (int, error) {
	for n := 1; n < steps; n++ {
		if e := run(n, newWorld(seed, nil)); e != nil {
			return n, e
		}
	}
	return steps, err
}

// play plays a seed, and fails the test with its shortest history.
func play(t *testing.T, seed uint64) stats {
	w := newWorld(seed, nil)
	if err := run(steps, w); err != nil {
		n, err := shortest(seed, err)
		t.Errorf("seed %d: %v, after %d steps\nreplay: go test ./internal/simtest -run TestHistories -seed %d -steps %d -v", seed, err, n, seed, n)
		failures++
	}
	return w.stats
}

var failures int

func TestHistories(t *testing.T) {
	if *seedFlag != 0 {
		var trace bytes.Buffer
		err := run(*stepsFlag, newWorld(*seedFlag, &trace))
		t.Logf("%s", trace.String())
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	seeds := *seedsFlag
	if s := os.Getenv("TANDEM_SIM_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	}
	var total stats
	for n := range seeds {
		if failures == maxFailures {
			t.Fatalf("stopped after %d seeds", n)
		}
		total.add(play(t, *fromFlag+uint64(n)))
	}
	t.Logf("%d seeds from %d: %+v", seeds, *fromFlag, total)
	if min(total.refused, total.repaired, total.sources, total.starts, total.commits, total.lost, total.backs, total.acknowledgedBacks, total.resets, total.toolRows, total.expired, total.decided, total.aborted, total.waits) < seeds/100 {
		t.Errorf("the histories hardly touch some of it: %+v", total)
	}
}
