package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-kafka/tandem/bench/peers"
)

// peersCase is a table that compares ways to have several consumers work on one partition.
type peersCase struct {
	name, title string
	work        peers.Work
	arms        []arm
	head        []string // of the columns that only this case has
	long        bool     // a turn takes so long that half as many have to do
	cells       func(*armRuns, map[string]*armRuns) []string
	note        string
	do          func(*peers.Bench, context.Context, peers.Work, peers.Consumers) (*peers.Outcome, error) // nil: Run
}

// arm is who does the work of a case, and how.
type arm struct {
	name                   string // in the table
	how                    how
	processes, concurrency int
	alone                  bool // each of the concurrency is a member of its own, which works on one record at a time
	without                bool // the records of key 0 are left out
	cap                    time.Duration
}

// how is a kind of consumer.
type how struct {
	id, name, java, config string
	group                  peers.Kind
}

var (
	plain       = how{id: "plain", name: "plain consumer", java: "plain", group: peers.Classic}
	shareGroup  = how{id: "share", name: "share group", java: "share", group: peers.Share}
	shareTuned  = how{id: "share-tuned", name: "share group, tuned", java: "share", config: "max.poll.records=10,share.acquire.mode=record_limit", group: peers.Share}
	byKey       = how{id: "parallel-key", name: "Parallel Consumer, KEY", java: "parallel-key", group: peers.Classic}
	unordered   = how{id: "parallel-unordered", name: "Parallel Consumer, UNORDERED", java: "parallel-unordered", group: peers.Classic}
	byGateway   = how{id: "gateway", name: "Tandem, gateway"}
	inOneself   = how{id: "in-process", name: "Tandem, in process"}
	cooperative = how{id: "cooperative", name: "Tandem, cooperative", group: peers.ByRecord}
	withoutMark = ", without key 0"
)

func (h how) arm(processes, concurrency int) arm {
	name := h.name
	if processes*concurrency > 1 {
		name = fmt.Sprintf("%s, %d × %d", name, processes, concurrency)
	}
	return arm{name: name, how: h, processes: processes, concurrency: concurrency}
}

// brief ends the arm's turns after 6 s: it is slow, and goes on as it has begun.
func (a arm) brief() arm {
	a.cap = 6 * time.Second
	return a
}

// ones makes each of the concurrency a member of its own.
func (a arm) ones() arm {
	a.alone = true
	return a
}

// withoutKey0 is the same arm with less to do.
func (a arm) withoutKey0() arm {
	a.name, a.without = a.name+withoutMark, true
	return a
}

// armRuns are the turns of an arm.
type armRuns struct {
	arm
	runs []*peers.Outcome
	read []float64 // bytes from the broker
}

func (a *armRuns) of(f func(*peers.Outcome) float64) (all []float64) {
	for _, o := range a.runs {
		all = append(all, f(o))
	}
	return all
}

func (a *armRuns) median(f func(*peers.Outcome) float64) float64 { return median(a.of(f)) }

func perSecond(pass func(*peers.Entry) bool) func(*peers.Outcome) float64 {
	return func(o *peers.Outcome) float64 { return o.PerSecond(pass) }
}

// millis is a quantile of latencies in ms, infinite where the record there was not done.
func millis(q float64, skip time.Duration, pass func(*peers.Entry) bool) func(*peers.Outcome) float64 {
	return func(o *peers.Outcome) float64 {
		d := o.Latency(q, skip, pass)
		if d == math.MaxInt64 {
			return math.Inf(1)
		}
		return float64(d.Microseconds()) / 1000
	}
}

// table is the case as one of the tables of docs/benchmarks.md.
func (c *peersCase) table() table {
	return table{"peers-" + c.name, c.title, c.run}
}

func (c *peersCase) run(b *bench) (*result, error) {
	wanted, err := regexp.Compile("^(" + b.arms + ")$")
	if err != nil {
		return nil, err
	}
	var all []*armRuns
	byName := map[string]*armRuns{}
	var order []string
	for _, a := range c.arms {
		order = append(order, a.name)
		if wanted.MatchString(a.how.id) {
			all = append(all, &armRuns{arm: a})
			byName[a.name] = all[len(all)-1]
		}
	}
	rounds := b.rounds
	if c.long {
		rounds = (rounds + 1) / 2
	}
	for range rounds {
		for _, a := range all {
			if err := b.turn(c, a); err != nil {
				return nil, fmt.Errorf("%s: %w", a.name, err)
			}
		}
	}
	r := &result{Head: append(append([]string{c.title}, c.head...), "consumers' CPU s", "gateway's", "broker's", "MB from the broker", "in order", "twice", "turns", "measured")}
	for _, a := range all {
		r.row(append(append([]string{a.name}, c.cells(a, byName)...), a.common(b)...)...)
	}
	if b.arms != anyArm {
		if err := b.keepRows("peers-"+c.name, r, order); err != nil {
			return nil, err
		}
	}
	r.note("%s", c.note)
	return r, nil
}

// common are the columns that all cases have.
func (a *armRuns) common(b *bench) []string {
	cpu := func(name string) string {
		if a.runs[0].CPU[name] == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", a.median(func(o *peers.Outcome) float64 { return o.CPU[name] }))
	}
	overtaken := a.median(func(o *peers.Outcome) float64 { return float64(o.Overtaken()) })
	order := "all"
	if overtaken > 0 {
		order = fmt.Sprintf("all but %.0f", overtaken)
	}
	read := ""
	if v := median(a.read); v > 0 {
		read = fmt.Sprintf("%.1f", v/1e6)
	}
	twice := a.median(func(o *peers.Outcome) float64 { return float64(o.Duplicates()) })
	return []string{cpu("consumers"), cpu("gateway"), cpu("broker"), read, order, fmt.Sprintf("%.0f", twice),
		fmt.Sprint(len(a.runs)), time.Now().UTC().Format("01-02 15:04") + ", " + b.commit()}
}

// turn has an arm do the work once.
func (b *bench) turn(of *peersCase, a *armRuns) error {
	k, err := b.broker()
	if err != nil {
		return err
	}
	h := &peers.Bench{Kafka: k.addr, Dir: filepath.Join(b.dir, "peers"), Log: b.logs, Others: map[string]int{"broker": k.pid}}
	c := peers.Consumers{Bootstrap: k.addr, Processes: a.processes, Concurrency: a.concurrency, Group: a.how.group}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var g *process
	switch a.how {
	case inOneself:
		c.Command = []string{self, "peers-worker", "-in-process"}
	case byGateway, cooperative:
		if g, err = b.gateway(); err != nil {
			return err
		}
		defer g.stop()
		h.Others["gateway"] = g.cmd.Process.Pid
		c.Bootstrap, c.Command = g.addr, []string{self, "peers-worker"}
		if a.how == cooperative {
			c.Command = append(c.Command, "-by-record")
		}
		if a.alone {
			c.Command, c.Members, c.Concurrency = append(c.Command, "-members", strconv.Itoa(a.concurrency)), a.concurrency, 1
		}
	default:
		if c.Command, err = b.java(); err != nil {
			return err
		}
		c.Command = append(c.Command[:len(c.Command):len(c.Command)], "-how", a.how.java)
		if a.how.config != "" {
			c.Command = append(c.Command, "-config", a.how.config)
		}
	}
	if b.profile != "" {
		if h.Profile, err = filepath.Abs(b.profile); err != nil {
			return err
		}
	}
	w, do := of.work, of.do
	w.Without = a.without
	if a.cap > 0 {
		w.Cap = a.cap
	}
	w.Records = b.scaled(w.Records, 1000)
	if do == nil {
		do = (*peers.Bench).Run
	}
	o, err := do(h, b.ctx, w, c)
	if err != nil {
		return err
	}
	read := o.Read
	if g != nil && (c.Processes > 1 || a.how == cooperative) { // one alone by key has the whole partition, which is spliced to it
		read = g.read()
	}
	a.runs, a.read = append(a.runs, o), append(a.read, read)
	b.progress("%s: %d of %d, %.0f records/s (others %.0f), %.1f busy, p50 %.1f ms, p99 %.1f ms, CPU %s, %.0f MB read, %d overtaken, %d twice", a.name, o.Done(), len(o.Tasks), o.PerSecond(peers.Everything), o.PerSecond(peers.Others), o.Busy(),
		millis(0.5, warmUp, peers.Everything)(o), millis(0.99, warmUp, peers.Everything)(o), seconds(o.CPU), read/1e6, o.Overtaken(), o.Duplicates())
	return nil
}

// seconds are CPU seconds as text.
func seconds(cpu map[string]float64) string {
	var s []string
	for _, name := range slices.Sorted(maps.Keys(cpu)) {
		s = append(s, fmt.Sprintf("%s %.2f s", name, cpu[name]))
	}
	return strings.Join(s, ", ")
}

// java builds the consumers in Java on first use.
func (b *bench) java() (command []string, err error) {
	if b.javaCommand == nil {
		b.javaCommand, err = peers.Java(b.ctx, b.root, filepath.Join(b.dir, "java"))
	}
	return b.javaCommand, err
}

// keepRows adds the rows of the last measurement whose arms were not measured now. order has the names of all arms.
func (b *bench) keepRows(name string, r *result, order []string) error {
	all, err := b.results()
	if err != nil {
		return err
	}
	for _, old := range all {
		if old.Name != name {
			continue
		}
		for _, row := range old.Rows {
			if len(row) == len(r.Head) && slices.Contains(order, row[0]) && !slices.ContainsFunc(r.Rows, func(fresh []string) bool { return fresh[0] == row[0] }) {
				r.Rows = append(r.Rows, row)
			}
		}
	}
	slices.SortStableFunc(r.Rows, func(x, y []string) int { return slices.Index(order, x[0]) - slices.Index(order, y[0]) })
	return nil
}
