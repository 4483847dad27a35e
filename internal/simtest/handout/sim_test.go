package handout

import (
	"flag"
	"testing"
)

var seed = flag.Uint64("seed", 0, "play this history only")

// Nothing is lost, nothing is with two members while the first is in time, attempts are right, and compaction changes no verdict.
func TestHistories(t *testing.T) {
	first, last := uint64(1), uint64(3000)
	if testing.Short() {
		last = 300
	}
	if *seed > 0 {
		first, last = *seed, *seed
	}
	var again, delivered, early int
	for s := first; s <= last; s++ {
		w := play(s)
		if w.failure != "" {
			t.Fatalf("history %d, repeat it with -seed %d: %s", s, s, w.failure)
		}
		again, delivered, early = again+w.again, delivered+w.delivered, early+w.early
	}
	t.Logf("%d records given out, %d of them again, %d of what was acquired ahead", delivered, again, early)
	if *seed == 0 && (again < delivered/20 || early < delivered/50) {
		t.Error("hardly anything was given out again, or had been acquired ahead: the histories test little")
	}
}
