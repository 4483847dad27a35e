package facts

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/tandem-kafka/tandem/test/harness"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "play this seed only, and print its history")
	stepsFlag = flag.Int("steps", steps, "with -seed: how long the history is")
	fromFlag  = flag.Uint64("from", 1, "the first seed")
	seedsFlag = flag.Int("seeds", 1500, "how many seeds")
	failFlag  = flag.Int("failures", 5, "how many failing seeds are shown before the rest is not played")
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

// play plays a seed, and fails the test with its shortest history.
func play(t *testing.T, seed uint64) (s stats, ok bool) {
	w := newWorld(seed, nil)
	if err := run(steps, w); err != nil {
		n, err := shortest(seed, err)
		t.Errorf("seed %d: %v, after %d steps\nreplay: go test ./internal/simtest/facts -run TestHistories -seed %d -steps %d -v", seed, err, n, seed, n)
		return w.stats, false
	}
	return w.stats, true
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
	if testing.Short() { // under the race detector it is ten times as slow
		seeds = min(seeds, 300)
	}
	if s := os.Getenv("TANDEM_SIM_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	}
	var total stats
	failures := 0
	for n := range seeds {
		s, ok := play(t, *fromFlag+uint64(n))
		total.add(s)
		if !ok {
			if failures++; failures == *failFlag {
				t.Fatalf("stopped after %d seeds", n+1)
			}
		}
	}
	t.Logf("%d seeds from %d: %+v", seeds, *fromFlag, total)
	for i, n := range total.list() {
		if *n < seeds/200 {
			t.Errorf("the histories hardly touch some of it: %s is %d", reflect.TypeFor[stats]().Field(i).Name, *n)
		}
	}
}

// It goes on where the default seeds end, in the same order each time: a failure at a rare seed shows on every machine that
// gets so far, not now and then. -from lets it begin elsewhere.
func TestSoakHistories(t *testing.T) {
	more := harness.Until(harness.Soak(t, 5))
	first := *fromFlag + uint64(*seedsFlag)
	t.Logf("seeds from %d", first)
	seed := first
	for ; more() && !t.Failed(); seed++ {
		play(t, seed)
	}
	t.Logf("%d seeds", seed-first)
}
