package executor

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
)

// rec is a record of the model: R of its Machine.
type rec struct {
	tp     TP
	offset int64
	key    []byte
	copied bool
}

func (r *rec) meta() Meta { return Meta{Offset: r.offset, Key: r.key, Size: 100} }

func (r *rec) position() uint32 {
	if r.key == nil {
		return keyrange.NullPosition(r.offset)
	}
	return keyrange.Position(r.key, 1)
}

// id tells records apart.
type id struct {
	tp     TP
	offset int64
}

func (r *rec) id() id { return id{r.tp, r.offset} }

// fate is what the world knows of a record.
type fate struct {
	*rec
	done      int // the assignment under which it was done; 0: it is not
	committed bool
	gone      bool  // compacted
	failed    int32 // attempts that failed
	stored    int32 // of them, in a commit that was acknowledged
	retryAt   int64
	letters   int // dead letters written
	running   bool
	brought   *brought // by its last successful run; nil: nothing
}

// brought is what a run of the model brings.
type brought struct {
	f       *fate
	written bool // with a commit that was acknowledged
}

const broughtSize = 40

// owned are key ranges as the world assigned them.
type owned struct {
	id    int // changes with every Assign; a split keeps it
	tp    TP
	keys  keyrange.Set
	guard bool // some of its records were guarded
}

// revoked is a revocation that is not over: what becomes free.
type revoked struct {
	had      []owned
	deadline int64 // of the part that has the earliest
	latest   int64
	top      int64 // the highest offset of what was done or handed out
	held     bool  // something is in the way of what lies below it: an attempt that failed, guarded or shed records
}

// worker runs tasks one after the other. ran are over, tasks[ran] runs if begun.
type worker struct {
	tasks []*Task[*rec]
	ran   int
	begun bool
	rec   *rec // of the task that runs
}

// world plays log, coordinator, workers and clock for a Machine, and judges it.
type world struct {
	t       *rapid.T
	cfg     Config
	m       *Machine[*rec]
	now     int64
	tps     []TP
	logs    map[TP][]*fate
	ends    map[TP]int64 // of the logs
	byID    map[id]*fate
	owned   []owned
	free    map[TP]keyrange.Set // what can be assigned: released
	ids     int
	workers []*worker
	commits []Commit
	refused map[int64]bool             // commits, by id
	lost    map[int64][]keyrange.Range // of commits, by id
	retries map[TP]map[int64]Retry     // stored with commits
	rereads []Reread
	revokes map[int64]*revoked // by id of Revoke
	flushes map[int64][]*fate  // by id of Flush: what was done when it was called
	paused  map[TP]bool
	flights []flight
	stopped bool
	waits   bool // suspended
	steps   int
	again   int // rereads
	keep    int // of Machine: small, so that shedding is met
}

var errHandler = errors.New("handler failed")

func newWorld(t *rapid.T, cfg Config, partitions int) *world {
	w := &world{t: t, cfg: cfg, keep: rapid.IntRange(1, 4).Draw(t, "keep"), now: 1000 * Second, logs: map[TP][]*fate{}, ends: map[TP]int64{}, byID: map[id]*fate{}, free: map[TP]keyrange.Set{}, retries: map[TP]map[int64]Retry{}}
	for p := range partitions {
		tp := TP{"orders", int32(p)}
		w.tps = append(w.tps, tp)
		w.retries[tp] = map[int64]Retry{}
	}
	w.start()
	return w
}

// start begins a process.
func (w *world) start() {
	m, err := New(w.cfg, (*rec).meta, func(r *rec) *rec { c := *r; c.copied = true; return &c })
	if err != nil {
		w.t.Fatal(err)
	}
	w.m, w.workers, w.owned, w.commits, w.rereads, w.revokes, w.paused, w.refused = m, nil, nil, nil, nil, map[int64]*revoked{}, map[TP]bool{}, map[int64]bool{}
	w.lost = map[int64][]keyrange.Range{}
	w.flights, w.flushes, w.waits = nil, map[int64][]*fate{}, false
	w.m.keep = w.keep
	for range w.m.cfg.Handlers {
		w.workers = append(w.workers, &worker{})
	}
	for _, tp := range w.tps {
		w.free[tp] = keyrange.Set{keyrange.Full}
	}
	for _, f := range w.byID {
		f.running = false
	}
}

func (w *world) produce(tp TP, key []byte, gap int64) {
	o := w.ends[tp] + gap
	f := &fate{rec: &rec{tp: tp, offset: o, key: key}}
	w.logs[tp] = append(w.logs[tp], f)
	w.byID[f.id()] = f
	w.ends[tp] = o + 1
}

// ownerOf is the assignment that a record belongs to; 0: none.
func (w *world) ownerOf(r *rec) int {
	for _, o := range w.owned {
		if o.tp == r.tp && o.keys.Contains(r.position()) {
			return o.id
		}
	}
	return 0
}

// holderOf is the assignment that a record belongs to, or did until a revocation that is not over; 0: none.
func (w *world) holderOf(r *rec) int {
	if id := w.ownerOf(r); id != 0 {
		return id
	}
	_, o := w.revocationOf(w.byID[r.id()])
	return o.id
}

// assign assigns what of keys is free, from what is committed.
func (w *world) assign(tp TP, keys keyrange.Set, guard int) {
	keys = keyrange.AppendIntersect(nil, keys, w.free[tp])
	if len(keys) == 0 {
		return
	}
	w.free[tp] = keyrange.AppendSubtract(nil, w.free[tp], keys)
	a := Assignment{Keys: keys, Base: 1, Start: w.ends[tp], Guard: guard}
	if keys.Covers(keyrange.Full) && w.ids%2 == 0 {
		a.Keys = nil
	}
	for _, f := range w.logs[tp] {
		if keys.Contains(f.position()) && !f.committed && !f.gone {
			a.Start = f.offset
			break
		}
	}
	// Of every key range of its own: all offsets above Start but those of its records that are not committed.
	for _, r := range keys {
		c := done.Committed{Keys: r}
		from := a.Start
		add := func(to int64) {
			if from < to {
				c.Ranges = append(c.Ranges, offsets.Range{First: from, Last: to - 1})
			}
			from = to + 1
		}
		for _, f := range w.logs[tp] {
			if f.offset >= a.Start && r.Contains(f.position()) && !f.committed {
				add(f.offset)
			}
		}
		for _, f := range slices.Backward(w.logs[tp]) {
			if f.committed && r.Contains(f.position()) {
				add(f.offset + 1)
				break
			}
		}
		if len(c.Ranges) > 0 {
			a.Committed = append(a.Committed, c)
		}
	}
	for _, r := range w.retries[tp] {
		a.Retries = append(a.Retries, r)
		if f := w.byID[id{tp, r.Offset}]; keys.Contains(f.position()) && f.done == 0 {
			f.failed = f.stored // a later failure was not stored, and is forgotten
		}
	}
	for _, f := range w.logs[tp] {
		if keys.Contains(f.position()) {
			f.failed, f.retryAt = f.stored, 0
			if r, ok := w.retries[tp][f.offset]; ok {
				f.retryAt = r.NextAt
			}
		}
	}
	w.ids++
	w.owned = append(w.owned, owned{w.ids, tp, keys, guard > 0})
	w.log("assign %d: %v/%v from %d, committed %v, retries %v", w.ids, tp.Partition, keys, a.Start, a.Committed, a.Retries)
	if err := w.m.Assign(tp, a, w.now); err != nil {
		w.t.Fatalf("assign %v: %v", keys, err)
	}
}

// disown takes keys from what is owned and returns what was there.
func (w *world) disown(tp TP, keys keyrange.Set) (had []owned) {
	var rest []owned
	for _, o := range w.owned {
		common := keyrange.AppendIntersect(nil, o.keys, keys)
		if o.tp != tp || len(common) == 0 {
			rest = append(rest, o)
			continue
		}
		had = append(had, owned{o.id, tp, common, o.guard})
		if left := keyrange.AppendSubtract(nil, o.keys, keys); len(left) > 0 {
			rest = append(rest, owned{o.id, tp, left, o.guard})
		}
	}
	w.owned = rest
	return had
}

func (w *world) revoke(tp TP, keys keyrange.Set, limit int64) {
	had := w.disown(tp, keys)
	w.log("revoke %v/%v: %v", tp.Partition, keys, had)
	for _, rv := range w.revokes { // an earlier time limit holds for both
		if slices.ContainsFunc(rv.had, func(o owned) bool { return o.tp == tp && len(keyrange.AppendIntersect(nil, o.keys, keys)) > 0 }) {
			rv.deadline = min(rv.deadline, w.now+limit)
		}
	}
	rv := &revoked{had: had, deadline: w.now + limit, latest: w.now + limit}
	w.planCatchUp(rv)
	w.revokes[w.m.Revoke(tp, keys, w.now+limit, w.now)] = rv
}

func (w *world) lose(tp TP, keys keyrange.Set) {
	w.log("lose %v/%v", tp.Partition, keys)
	for _, o := range w.disown(tp, keys) {
		w.free[tp] = keyrange.AppendUnion(nil, w.free[tp], o.keys)
	}
	for _, rv := range w.revokes { // what is revoked can be lost, too
		for i, o := range rv.had {
			if o.tp == tp {
				w.free[tp] = keyrange.AppendUnion(nil, w.free[tp], keyrange.AppendIntersect(nil, o.keys, keys))
				rv.had[i].keys = keyrange.AppendSubtract(nil, o.keys, keys)
			}
		}
	}
	w.m.Lost(tp, keys, w.now)
	for _, c := range slices.Concat(w.commits, w.m.out.Commits) { // those under way are refused, and what was cut before all of it was lost
		if c.TP == tp && len(keyrange.AppendIntersect(nil, c.Keys, keys)) > 0 {
			w.refused[c.ID] = true
			w.lost[c.ID] = append(w.lost[c.ID], keys...)
		}
	}
}

// fetch brings up to n records from the lowest position of a partition, or from that of one holding.
func (w *world) fetch(tp TP, n int, one bool) {
	positions := w.m.Positions(tp)
	if len(positions) == 0 {
		return
	}
	w.deliver(flight{tp, w.request(tp, positions, n, one)})
}

// flight is a fetch under way.
type flight struct {
	tp TP
	f  Fetch[*rec]
}

// request is a fetch as of now.
func (w *world) request(tp TP, positions []Position, n int, one bool) Fetch[*rec] {
	f := Fetch[*rec]{From: positions[0].Next}
	if one {
		f.Keys = positions[0].Keys
	}
	for _, p := range positions[1:] {
		if !one {
			f.From = min(f.From, p.Next)
		}
	}
	f.To = w.ends[tp]
	for _, r := range w.logs[tp] {
		if r.offset < f.From || r.gone {
			continue
		}
		if len(f.Records) == n {
			f.To = f.Records[n-1].offset + 1
			break
		}
		f.Records = append(f.Records, r.rec)
	}
	return f
}

// deliver delivers a fetch, which may be of another time.
func (w *world) deliver(fl flight) {
	tp, f := fl.tp, fl.f
	before := w.m.records
	if len(f.Records) > 0 {
		w.log("fetch %v from %d to %d: %v", tp.Partition, f.From, f.To, f.Records)
	}
	w.m.Fetched(tp, f, w.now)
	if limit := w.m.cfg.MaxRecords + len(f.Records); before <= w.m.cfg.MaxRecords && w.m.records > limit {
		w.t.Fatalf("%d records in memory, limit %d", w.m.records, limit)
	}
}

// take gives a worker that has nothing up to n tasks.
func (w *world) take(k *worker, n int) {
	if len(k.tasks) > 0 {
		return
	}
	k.tasks, k.ran, k.begun = w.m.Take(k.tasks, n, w.now), 0, false
	if len(k.tasks) > n || w.waits && len(k.tasks) > 0 {
		w.t.Fatalf("took %d tasks of %d, suspended %v", len(k.tasks), n, w.waits)
	}
	for _, t := range k.tasks {
		if t.Host != nil {
			w.t.Fatalf("task %d comes with what was left in it: %v", t.Offset(), t.Host)
		}
		if t.Host = w.holderOf(t.Record); w.ownerOf(t.Record) == 0 {
			w.judgeCatchUp(t)
		}
	}
}

// recall gives back what a worker has not begun.
func (w *world) recall(k *worker) {
	from := k.ran
	if k.begun {
		from++
	}
	if from < len(k.tasks) {
		w.m.GiveBack(k.tasks[from:], w.now)
		k.tasks = k.tasks[:from]
	}
	if k.ran == len(k.tasks) {
		k.tasks, k.ran = nil, 0
	}
}

// begin begins a worker's next task.
func (w *world) begin(k *worker) {
	if k.begun || k.ran == len(k.tasks) {
		return
	}
	w.output() // says what was skipped
	k.begun = true
	w.log("begin %v kind %d attempt %d", k.tasks[k.ran].Record, k.tasks[k.ran].Kind(), k.tasks[k.ran].Attempt())
	k.rec = k.tasks[k.ran].Record
	w.judgeBegin(k.tasks[k.ran])
}

// end ends the run of a worker.
func (w *world) end(k *worker, res Result) {
	if !k.begun {
		return
	}
	t := k.tasks[k.ran]
	k.begun = false
	k.ran++
	if t.Record != k.rec {
		w.t.Fatalf("the record of %v was changed while it ran", k.rec)
	}
	w.log("end %v: %v", t.Record, res)
	if f := w.byID[t.Record.id()]; res.Err != nil || f.offset%3 > 0 {
		t.Bring(&brought{f: f}, broughtSize) // nothing comes of what a failed run brings
	}
	w.judgeEnd(t, res)
	if res.Err != nil {
		w.recall(k)
	}
	w.m.Finish(t, res, w.now)
	if k.ran == len(k.tasks) {
		k.tasks, k.ran = nil, 0
	}
}

// suspend suspends and resumes.
func (w *world) suspend(waits bool) {
	w.waits = waits
	for _, rv := range w.revokes {
		rv.held = rv.held || waits
	}
	w.m.Suspend(waits)
	if waits && w.m.Ready() > 0 {
		w.t.Fatalf("%d tasks are ready while suspended", w.m.Ready())
	}
}

// wanted is what Wanted has to say of a commit: whether anything of it is owned, or being revoked.
func (w *world) wanted(c Commit) bool {
	left := c.Keys
	for _, lost := range w.lost[c.ID] {
		left = keyrange.AppendSubtract(nil, left, keyrange.Set{lost})
	}
	return len(left) > 0
}

// commitDone answers the oldest commit. arrived: though it failed.
func (w *world) commitDone(ok, arrived bool) {
	c := w.commits[0]
	w.commits = w.commits[1:]
	if w.refused[c.ID] {
		ok, arrived = false, false
	}
	if ok || arrived {
		for _, f := range w.logs[c.TP] {
			if !c.Keys.Contains(f.position()) {
				continue
			}
			if w.covers(c, f.offset) {
				w.judgeCommitted(c, f)
				f.committed = true
			}
			delete(w.retries[c.TP], f.offset)
			f.stored = 0
		}
		for _, r := range c.Retries {
			f := w.byID[id{c.TP, r.Offset}]
			if c.Keys.Contains(f.position()) {
				w.retries[c.TP][r.Offset] = r
				f.stored = r.Attempts
			}
		}
	}
	for _, o := range c.Outputs {
		b := o.Data.(*brought)
		b.written = b.written || ok
	}
	w.log("commit %d is answered: %v, arrived %v", c.ID, ok, arrived)
	if got := w.m.Wanted(c.ID); got != w.wanted(c) {
		w.t.Fatalf("commit %d of %v is wanted: %v", c.ID, c.Keys, got)
	}
	w.m.CommitDone(c.ID, ok, w.now)
}

// covers reports whether a commit makes durable that an offset is done.
func (w *world) covers(c Commit, offset int64) bool {
	return offset < c.Watermark || !w.cfg.WatermarkOnly && slices.ContainsFunc(c.Ranges, func(r offsets.Range) bool { return r.Contains(offset) })
}

// reread answers the oldest reread.
func (w *world) reread(n int, ok bool) {
	r := w.rereads[0]
	w.log("reread %+v: %v", r, ok)
	w.rereads = w.rereads[1:]
	if !ok {
		w.m.RereadFailed(r.ID, w.now)
		return
	}
	var list []*rec
	to := w.ends[r.TP]
	for _, f := range w.logs[r.TP] {
		if f.offset < r.From || f.gone || w.steps%2 == 0 && !r.Keys.Contains(f.position()) {
			continue
		}
		if len(list) == n {
			to = list[n-1].offset + 1
			break
		}
		list = append(list, f.rec)
	}
	w.m.RereadDone(r.ID, to, list, w.now)
}

// output carries out what the machine wants.
func (w *world) output() {
	for _, t := range w.m.Cancelled() {
		if t.state != handed || t.Host == w.ownerOf(t.Record) {
			w.t.Fatalf("cancelled %v, in state %d", t.Record, t.state)
		}
		if r := w.revoking(w.byID[t.Record.id()]); r != nil && w.now < r.deadline {
			w.t.Fatalf("cancelled %v before its time limit", t.Record)
		}
	}
	o := w.m.Output()
	if again := w.m.Output(); len(again.Flow)+len(again.Commits) > 0 {
		w.t.Fatalf("output twice: %+v", again)
	}
	for _, f := range o.Flow {
		if w.paused[f.TP] == f.Paused {
			w.t.Fatalf("told twice that paused is %v", f.Paused)
		}
		w.paused[f.TP] = f.Paused
	}
	for _, r := range o.Reports {
		if r.Kind == Skipped {
			w.judgeSkip(w.byID[id{r.TP, r.Offset}])
		}
	}
	for _, c := range o.Commits {
		w.log("commit %+v", c)
		w.judgeCommit(c)
		w.commits = append(w.commits, c)
	}
	w.rereads = append(w.rereads, o.Rereads...)
	for _, r := range o.Released {
		w.log("released %+v", r)
		rv, ok := w.revokes[r.ID]
		if !ok {
			w.t.Fatalf("released %d that nobody revoked", r.ID)
		}
		had := rv.had
		delete(w.revokes, r.ID)
		for _, h := range had {
			if !covers(r.Keys, h.keys) {
				w.t.Fatalf("released %v of %v", r.Keys, h.keys)
			}
			w.judgeReleased(r, rv, h)
			w.free[h.tp] = keyrange.AppendUnion(nil, w.free[h.tp], h.keys)
		}
	}
	w.judgeFlushed(o.Flushed)
	if o.Stopped != nil {
		w.stopped = true
	}
}

func (r *rec) String() string {
	return fmt.Sprintf("%d/%d %q %08x", r.tp.Partition, r.offset, r.key, r.position())
}

func (w *world) log(format string, args ...any) {
	w.t.Logf("%d "+format, append([]any{(w.now - 1000*Second) / Millisecond}, args...)...)
}

func (w *world) fates(tp TP) []*fate { return w.logs[tp] }

func (w *world) String() string {
	s := fmt.Sprintf("%+v\n", w.m.Stats())
	for _, tp := range w.tps {
		for _, f := range w.logs[tp] {
			s += fmt.Sprintf("%v/%d key %q done %d committed %v gone %v failed %d letters %d owner %d\n", tp.Partition, f.offset, f.key, f.done, f.committed, f.gone, f.failed, f.letters, w.ownerOf(f.rec))
		}
	}
	w.m.each(func(t *Task[*rec]) {
		s += fmt.Sprintf("task %v state %d guarded %v gates %v counted %v; its holding: stage %d gates %d counting %v store %v sent %v behind %d uncounted %d\n", t.Record, t.state, t.guarded, t.gates, t.counted,
			t.hold.stage, t.hold.gates, t.hold.counting != nil, t.hold.store, t.hold.sent != nil, len(t.hold.behind), len(t.hold.uncounted))
	})
	for _, k := range slices.Sorted(maps.Keys(w.revokes)) {
		s += fmt.Sprintf("revoke %d\n", k)
	}
	return s
}
