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
	seedsFlag = flag.Int("seeds", 3000, "how many seeds")
)

// steps of a history; a violation is looked for with fewer, too.
const steps = 200

// shortest is the fewest steps after which this seed's history fails: a history of n steps begins like one of more.
func shortest(seed uint64, err error) (int, error) {
	for n := 1; n < steps; n++ {
		if e := run(n, newWorld(seed, nil)); e != nil {
			return n, e
		}
	}
	return steps, err
}

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
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		w := newWorld(seed, nil)
		err := run(steps, w)
		total.add(w.stats)
		if err != nil {
			n, err := shortest(seed, err)
			t.Fatalf("seed %d: %v, after %d steps\nreplay: go test ./internal/simtest -run TestHistories -seed %d -steps %d -v", seed, err, n, seed, n)
		}
	}
	t.Logf("%+v", total)
	if min(total.starts, total.commits, total.lost, total.backs, total.acknowledgedBacks, total.resets, total.toolRows, total.expired, total.decided, total.aborted, total.waits) < seeds/100 {
		t.Errorf("the histories hardly touch some of it: %+v", total)
	}
}
