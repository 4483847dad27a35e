package main

import (
	"fmt"
	"math"
	"time"

	"github.com/tandem-kafka/tandem/bench/peers"
)

// warmUp is left out of the latencies of paced work: Java compiles, groups settle.
const warmUp = 5 * time.Second

// rate are the columns of how fast an arm is: the median, the range, and what it is of something.
func rate(a *armRuns, pass func(*peers.Entry) bool) (float64, []string) {
	all := a.of(perSecond(pass))
	return median(all), []string{fmt.Sprintf("%.0f", median(all)), fmt.Sprintf("%.0f – %.0f", quantile(all, 0), quantile(all, 1))}
}

func (a *armRuns) ours() bool { return a.how.group == peers.KeyRanges || a.how.group == peers.ByRecord }

var keysCase = &peersCase{
	name: "keys", title: "many keys, 100 at once",
	work: peers.Work{Records: 10_000, Keys: 1000, Takes: 2500 * time.Microsecond, Uniform: true, Bytes: 100, Cap: 15 * time.Second},
	arms: []arm{plain.arm(1, 1).brief(), shareGroup.arm(4, 25).brief(), shareTuned.arm(4, 25).brief(), byKey.arm(1, 100), unordered.arm(1, 100),
		byGateway.arm(4, 25), byGateway.arm(1, 100), inOneself.arm(4, 25), inOneself.arm(1, 100)},
	head: []string{"records/s", "from – to", "busy", "target"},
	cells: func(a *armRuns, _ map[string]*armRuns) []string {
		v, cells := rate(a, peers.Everything)
		cells = append(cells, fmt.Sprintf("%.0f", a.median((*peers.Outcome).Busy)))
		switch {
		case a.ours() && a.processes == 1:
			return append(cells, verdict(v >= 30_000, "≥ 30,000"))
		case a.ours():
			return append(cells, verdict(v >= 25_000, "≥ 25,000"))
		}
		return append(cells, "")
	},
	note: "10,000 records of 1,000 keys, 0 to 5 ms each, 100 at once (in so many processes × at once in each): 40,000/s is the limit. Busy: how many records were being worked on, on average.",
}

var zipfCase = &peersCase{
	name: "zipf", title: "keys of unequal weight, 24 at once",
	work: peers.Work{Records: 10_000, Keys: 200, Zipf: 1, Takes: 10 * time.Millisecond, Bytes: 100, Cap: 30 * time.Second},
	arms: []arm{shareGroup.arm(3, 8).brief(), shareTuned.arm(3, 8).brief(), byKey.arm(1, 24), unordered.arm(1, 24),
		byGateway.arm(3, 8), byGateway.arm(3, 8).withoutKey0(), inOneself.arm(3, 8), inOneself.arm(3, 8).withoutKey0()},
	long: true,
	head: []string{"records/s", "from – to", "of the limit in order", "target", "p99 of the others", "of that without key 0", "target"},
	cells: func(a *armRuns, all map[string]*armRuns) []string {
		_, cells := rate(a, peers.Everything)
		late := a.of(millis(0.99, 0, peers.Others))
		p99 := fmt.Sprintf("%.2f s", median(late)/1000)
		if m := median(late); math.IsInf(m, 1) || math.IsNaN(m) {
			p99 = "" // the turns ended before
		}
		if a.without {
			return append(cells, "", "", p99, "", "")
		}
		of := a.median(func(o *peers.Outcome) float64 { return o.PerSecond(peers.Everything) / hottest(o) })
		cells = append(cells, fmt.Sprintf("%.2f", of))
		alone := all[a.name+withoutMark]
		if alone == nil {
			return append(cells, "", p99, "", "")
		}
		more := ratio(late, alone.of(millis(0.99, 0, peers.Others)))
		return append(cells, verdict(of >= 0.97, "≥ 0.97"), p99, fmt.Sprintf("%.3f", more), verdict(more <= 1.02, "≤ 1.02"))
	},
	note: "10,000 records of 200 keys, Zipf's law with exponent 1, 10 ms each. In order nobody can be faster than the hottest key, whose records take their time one after the other: that is the limit. " +
		"The p99 is that of the time from the start to the end of the records of all other keys, and is to be what it is when the hottest key is not there at all.",
}

// hottest is how many records a second are possible if key 0 alone decides.
func hottest(o *peers.Outcome) float64 {
	var sum time.Duration
	for _, t := range o.Tasks {
		if t.Key == 0 {
			sum += t.Takes
		}
	}
	return float64(len(o.Tasks)) / sum.Seconds()
}

var stuckCase = &peersCase{
	name: "stuck", title: "one key is stuck, 16 at once",
	work: peers.Work{Records: 20_000, Keys: 200, Takes: time.Millisecond, Stuck: time.Second, Bytes: 100, Cap: 15 * time.Second},
	arms: []arm{plain.arm(1, 1).brief(), shareGroup.arm(4, 4).brief(), shareTuned.arm(4, 4).brief(), byKey.arm(1, 16),
		byGateway.arm(1, 16), byGateway.arm(1, 16).withoutKey0(), inOneself.arm(1, 16), inOneself.arm(1, 16).withoutKey0()},
	head: []string{"others/s", "from – to", "of that without key 0", "target"},
	cells: func(a *armRuns, all map[string]*armRuns) []string {
		_, cells := rate(a, peers.Others)
		if alone := all[a.name+withoutMark]; alone != nil {
			of := ratio(a.of(perSecond(peers.Others)), alone.of(perSecond(peers.Others)))
			return append(cells, fmt.Sprintf("%.3f", of), verdict(of >= 0.9, "≥ 0.9"))
		}
		return append(cells, "", "")
	},
	note: "20,000 records of 200 keys, 1 ms each, but 1 s for those of key 0; counted are those of the others, at most 15,000/s. A turn ends when they are done.",
}

var bulkCase = &peersCase{
	name: "bulk", title: "no work at all",
	work: peers.Work{Records: 500_000, Keys: 1000, Bytes: 100, Cap: 15 * time.Second},
	arms: []arm{plain.arm(1, 1), shareGroup.arm(2, 2).brief(), byKey.arm(1, 16).brief(), unordered.arm(1, 16).brief(),
		byGateway.arm(1, 16), byGateway.arm(2, 16), inOneself.arm(1, 16), inOneself.arm(2, 16)},
	head: []string{"records/s", "from – to", "target"},
	cells: func(a *armRuns, all map[string]*armRuns) []string {
		v, cells := rate(a, peers.Everything)
		if one := all[a.how.arm(1, a.concurrency).name]; a.ours() && a.processes == 2 && one != nil {
			of := ratio(a.of(perSecond(peers.Everything)), one.of(perSecond(peers.Everything)))
			return append(cells, verdict(of > 1, "> one process"))
		}
		if a.ours() {
			return append(cells, verdict(v >= 250_000, "≥ 250,000"))
		}
		return append(cells, "")
	},
	note: "500,000 records of 100 B with 1,000 keys: what a consumer itself costs.",
}

var paceCase = &peersCase{
	name: "pace", title: "1,000 records/s, 16 at once",
	work: peers.Work{Records: 30_000, Keys: 200, Takes: 5 * time.Millisecond, Rate: 1000, Bytes: 100, Cap: 40 * time.Second},
	arms: []arm{shareGroup.arm(4, 4), shareTuned.arm(4, 4), byKey.arm(1, 16), unordered.arm(1, 16), byGateway.arm(1, 16), byGateway.arm(4, 4), inOneself.arm(1, 16)},
	long: true,
	head: []string{"p50", "p99", "target"},
	cells: func(a *armRuns, _ map[string]*armRuns) []string {
		p50, p99 := a.median(millis(0.5, warmUp, peers.Everything)), a.median(millis(0.99, warmUp, peers.Everything))
		cells := []string{fmt.Sprintf("%.1f ms", p50), fmt.Sprintf("%.1f ms", p99)}
		if a.ours() {
			return append(cells, verdict(p50 <= 7 && p99 <= 15, "≤ 7 / 15 ms"))
		}
		return append(cells, "")
	},
	note: "200 keys, 5 ms each, for 30 s, one record a batch; from when a record was due at the producer to the end of its handling, without the first 5 s.",
}

var restartCase = &peersCase{
	name: "restart", title: "rolling restart of 8 processes",
	work: peers.Work{Records: 60_000, Keys: 200, Takes: 5 * time.Millisecond, Rate: 500, Bytes: 100, Cap: 2 * time.Minute},
	arms: []arm{byGateway.arm(8, 4), inOneself.arm(8, 4)},
	do:   (*peers.Bench).RestartAll,
	long: true,
	head: []string{"handled twice, all turns", "target", "keys that moved", "waited, p50", "p99", "target"},
	cells: func(a *armRuns, _ map[string]*armRuns) []string {
		twice, lost, overtaken := 0, 0, 0
		var waits []float64
		for _, o := range a.runs {
			twice, lost, overtaken = twice+o.Duplicates(), lost+len(o.Tasks)-o.Done(), overtaken+o.Overtaken()
			for _, w := range o.Moved() {
				waits = append(waits, w.Seconds()*1000)
			}
		}
		p99 := quantile(waits, 0.99)
		return []string{fmt.Sprint(twice), verdict(twice+lost+overtaken == 0, "0, none lost, all in order"), fmt.Sprint(len(waits)), fmt.Sprintf("%.0f ms", quantile(waits, 0.5)), fmt.Sprintf("%.0f ms", p99),
			verdict(p99 < 1000, "< 1 s")}
	},
	note: "500 records/s of 200 keys, 5 ms each; one process after the other is told to end, and another takes its place. A key that moved: its record was handled by another process than the one before; " +
		"it waited from when it was due, and the one before had ended, until its handler began.",
}
