package executor

import "testing"

// Where only the watermark is durable, whoever gets a partition does all again that lies above it. So before it is given back what lies below the last record that was
// begun is done, as long as that goes on.
func TestWhatIsBelowIsDoneBeforeAPartitionIsGivenBack(t *testing.T) {
	boom := Result{Err: errHandler, Delay: Second}
	for _, test := range []struct {
		name      string
		every     bool // all that is done is durable, not the watermark alone
		before    func(b *bed, tasks []*Task[*rec])
		after     func(b *bed)
		next      string // what is handed out after the revocation
		watermark int64
	}{
		{name: "it is done", next: "b1 d3", watermark: 5},
		{name: "all that is done is durable", every: true, watermark: 1},
		{name: "it fails", after: func(b *bed) {
			b.finish(b.take(1), boom)
		}, watermark: 1},
		{name: "a later one fails", after: func(b *bed) {
			tasks := b.take(2)
			b.finish(tasks[1:], boom)
			b.finish(tasks[:1], Result{})
		}, watermark: 3},
		{name: "an attempt waits", before: func(b *bed, _ []*Task[*rec]) {
			b.finish(b.take(1), boom)
		}, watermark: 1},
		{name: "a later attempt waits", before: func(b *bed, _ []*Task[*rec]) {
			tasks := b.take(2)
			b.finish(tasks[1:], boom)
			b.GiveBack(tasks[:1], b.now)
		}, next: "b1", watermark: 3},
		{name: "nothing begins", after: func(b *bed) {
			b.Suspend(true)
		}, watermark: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t, Config{Handlers: 5, WatermarkOnly: !test.every}, Assignment{})
			b.fetch("abcdefg")
			tasks := b.take(5)
			b.finish(tasks[2:3], Result{}) // c2
			b.finish(tasks[4:5], Result{}) // e4
			b.GiveBack(tasks[3:4], b.now)
			b.GiveBack(tasks[1:2], b.now)
			if test.before != nil {
				test.before(b, tasks)
			}
			id := b.Revoke(tp0, nil, b.now+Second, b.now)
			if test.after != nil {
				test.after(b)
			}
			rest := b.take(5)
			b.expect("handed out", names(rest), test.next)
			b.expect("released", len(b.Output().Released), 0)
			b.finish(rest, Result{})
			b.finish(tasks[:1], Result{}) // a0
			c := b.wait(0).Commits
			b.expect("commits", len(c), 1)
			b.expect("watermark", c[0].Watermark, test.watermark)
			b.CommitDone(c[0].ID, true, b.now)
			rel := b.Output().Released
			b.expect("released", len(rel), 1)
			b.expect("id", rel[0].ID, id)
			b.expect("left", b.Stats(), Stats{})
		})
	}
}

func TestTheTimeForWhatIsBelowIsBounded(t *testing.T) {
	b := newBed(t, Config{WatermarkOnly: true}, Assignment{})
	b.fetch("abc")
	tasks := b.take(3)
	b.finish(tasks[:1], Result{})
	b.GiveBack(tasks[1:2], b.now) // b1, below c2, which runs
	b.Revoke(tp0, nil, b.now+Second, b.now)
	b.expect("ready", b.Ready(), 1)
	c := b.wait(Second).Commits
	b.expect("ready at the end", b.Ready(), 0)
	b.expect("cancelled", names(b.Cancelled()), "c2")
	b.expect("watermark", c[0].Watermark, int64(1))
	b.CommitDone(c[0].ID, true, b.now)
	rel := b.Output().Released
	b.expect("released", len(rel), 1)
	b.expect("dropped", rel[0].Dropped, 1)
	b.expect("running", len(rel[0].Running), 1)
}
