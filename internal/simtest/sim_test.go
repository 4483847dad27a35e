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
	seedsFlag = flag.Int("seeds", 3000, "how many seeds")
)

// steps of a history; a violation is replayed with fewer to find the shortest.
const steps = 200

func play(t *testing.T, seed uint64, n int, trace *bytes.Buffer) (*world, error) {
	t.Helper()
	var w *world
	if trace != nil {
		w = newWorld(seed, trace)
	} else {
		w = newWorld(seed, nil)
	}
	return w, run(seed, n, w)
}

func TestHistories(t *testing.T) {
	if *seedFlag != 0 {
		var trace bytes.Buffer
		_, err := play(t, *seedFlag, steps, &trace)
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
		w, err := play(t, seed, steps, nil)
		total.add(w.stats)
		if err != nil {
			t.Errorf("seed %d: %v\nreplay: go test ./internal/simtest -run TestHistories -seed %d -v", seed, err, seed)
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%+v", total)
}
