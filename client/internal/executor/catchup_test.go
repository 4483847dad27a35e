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
		{name: "it is given back", after: func(b *bed) {
			b.GiveBack(b.take(1), b.now)
		}, next: "b1 d3", watermark: 5},
		{name: "another partition stops it", after: func(b *bed) {
			other := TP{"orders", 1}
			if err := b.Assign(other, Assignment{Base: 1}, b.now); err != nil {
				b.t.Fatal(err)
			}
			b.Fetched(other, Fetch[*rec]{Records: []*rec{{tp: other}}}, b.now)
			tasks := b.take(3) // the last is the other partition's
			b.GiveBack(tasks[:2], b.now)
			b.finish(tasks[2:], Result{Err: errHandler, Final: true})
			b.Tick(b.now)
			b.Lost(other, nil, b.now)
		}, watermark: 1},
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
			b := newBed(t, Config{Handlers: 5, WatermarkOnly: !test.every, Last: Stop}, Assignment{})
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

// What has to wait for something else than its turn is not waited for.
func TestWhatIsBelowMayHaveToWait(t *testing.T) {
	boom := Result{Err: errHandler, Delay: Second}
	released := func(b *bed, watermark int64) {
		t.Helper()
		c := b.wait(0).Commits
		b.expect("commits", len(c), 1)
		b.expect("watermark", c[0].Watermark, watermark)
		b.CommitDone(c[0].ID, true, b.now)
		b.expect("released", len(b.Output().Released), 1)
		b.expect("left", b.Stats(), Stats{})
	}
	t.Run("a later attempt", func(t *testing.T) {
		b := newBed(t, Config{WatermarkOnly: true}, Assignment{Retries: []Retry{{Offset: 3, Attempts: 1, NextAt: 2000 * Second}}})
		b.fetch("abcbd")
		tasks := b.take(4) // a0 b1 c2 d4
		b.finish(tasks[2:], Result{})
		b.GiveBack(tasks[1:2], b.now)
		b.Revoke(tp0, nil, b.now+Second, b.now)
		rest := b.take(4)
		b.expect("handed out", names(rest), "b1")
		b.finish(rest, Result{})
		b.finish(tasks[:1], Result{})
		released(b, 3)
	})
	t.Run("a guarded record", func(t *testing.T) {
		b := newBed(t, Config{WatermarkOnly: true}, Assignment{Guard: 2})
		b.fetch("aab")
		count := func() {
			t.Helper()
			c := b.wait(0).Commits
			b.expect("counts", len(c), 1)
			b.CommitDone(c[0].ID, true, b.now)
		}
		count()
		b.finish(b.take(1), boom) // a0
		other := b.take(1)
		b.expect("meanwhile", names(other), "b2")
		b.finish(other, Result{})
		b.now += Second
		count()
		tasks := b.take(3)
		b.expect("again", names(tasks), "a0")
		b.Revoke(tp0, nil, b.now+Second, b.now)
		b.finish(tasks, Result{})
		b.expect("handed out", names(b.take(3)), "")
		released(b, 1)
	})
	t.Run("a record that was shed", func(t *testing.T) {
		b := newBed(t, Config{WatermarkOnly: true, MaxRecords: 16, MaxShed: 100, Handlers: 2}, Assignment{})
		b.fetch("aaaaaaaaaaaaaaa")
		a := b.take(1)
		b.wait(Second)
		b.expect("shed", b.Stats().Shed, 13)
		b.fetch("bc")
		tasks := b.take(2)
		b.finish(tasks[1:], Result{})
		b.GiveBack(tasks[:1], b.now)
		b.Revoke(tp0, nil, b.now+Second, b.now)
		b.finish(a, Result{})
		rest := b.take(2)
		b.expect("handed out", names(rest), "a1")
		b.finish(rest, Result{})
		released(b, 2)
	})
	t.Run("nothing is shed meanwhile", func(t *testing.T) {
		b := newBed(t, Config{WatermarkOnly: true, MaxRecords: 16, MaxShed: 100, Handlers: 3}, Assignment{})
		b.fetch("aaaaaaaaaaaaaab")
		tasks := b.take(2)
		b.expect("paused", b.Paused(tp0), true)
		b.finish(tasks[1:], Result{})
		b.Revoke(tp0, nil, b.now+2*Second, b.now)
		for _, c := range b.wait(Second).Commits {
			b.CommitDone(c.ID, true, b.now)
		}
		b.expect("shed", b.Stats().Shed, 0)
		for range 14 {
			b.finish(tasks[:1], Result{})
			tasks = b.take(1)
		}
		released(b, 15)
	})
}
