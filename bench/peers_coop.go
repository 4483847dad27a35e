package main

import (
	"fmt"
	"time"

	"github.com/tandem-kafka/tandem/bench/peers"
)

// These cases ask for no order: cooperative fetch beside what else has none.

var coopBulkCase = &peersCase{
	name: "coop-bulk", title: "no order, no work, 4 members",
	work: peers.Work{Records: 500_000, Keys: 1000, Bytes: 100, Cap: 15 * time.Second},
	arms: []arm{shareGroup.arm(2, 2).brief(), unordered.arm(1, 16).brief(), cooperative.arm(4, 4)},
	head: []string{"records/s", "from – to", "target"},
	cells: func(a *armRuns, _ map[string]*armRuns) []string {
		v, cells := rate(a, peers.Everything)
		if a.ours() {
			return append(cells, verdict(v >= 250_000, "≥ 250,000"))
		}
		return append(cells, "")
	},
	note: "500,000 records of 100 B. The share group has 4 members in 2 processes, Tandem 4 in 4, each of which works on 4 records at a time, and Parallel Consumer is 1 member that works on 16.",
}

var coopPaceCase = &peersCase{
	name: "coop-pace", title: "no order, 1,000 records/s, 16 at once",
	work: peers.Work{Records: 20_000, Keys: 200, Takes: 5 * time.Millisecond, Rate: 1000, Bytes: 100, Cap: 30 * time.Second},
	arms: []arm{shareGroup.arm(4, 4), shareTuned.arm(4, 4), unordered.arm(1, 16), cooperative.arm(4, 4)},
	long: true,
	head: paceCase.head, cells: paceCase.cells,
	note: "5 ms each, for 20 s, one record a batch; from when a record was due at the producer to the end of its handling, without the first 5 s. " +
		"The share group has 16 members in 4 processes, Tandem 4 in 4, each of which works on 4 records at a time, and Parallel Consumer is 1 member that works on 16.",
}

var coopMembersCase = &peersCase{
	name: "coop-members", title: "no order, 100 members",
	work: peers.Work{Records: 10_000, Keys: 1000, Takes: 50 * time.Millisecond, Bytes: 100, Cap: 15 * time.Second},
	arms: []arm{shareGroup.arm(4, 25).brief(), shareTuned.arm(4, 25).brief(), cooperative.arm(4, 25).ones()},
	head: []string{"records/s", "from – to", "busy at once, most", "on average", "target"},
	cells: func(a *armRuns, _ map[string]*armRuns) []string {
		_, cells := rate(a, peers.Everything)
		most, busy := a.median(func(o *peers.Outcome) float64 { return float64(o.AtOnce()) }), a.median((*peers.Outcome).Busy)
		cells = append(cells, fmt.Sprintf("%.0f", most), fmt.Sprintf("%.0f", busy))
		if a.ours() {
			return append(cells, verdict(most == 100, "all 100"))
		}
		return append(cells, "")
	},
	note: "10,000 records of one partition, 50 ms each, 100 members in 4 processes, each of which works on one record at a time: 2,000/s is the limit. Busy: members that were working on a record.",
}
