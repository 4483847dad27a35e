package peers

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Outcome is what a run did.
type Outcome struct {
	Work
	Tasks []Task
	Begin time.Time          // of the work; latencies of paced records count from when they were due
	CPU   map[string]float64 // seconds, from the begin to the last record; "consumers" are all of them
	Read  float64            // bytes that the consumers read from their sockets since they joined

	entries []Entry // by index of the task: the first that ended it
	again   []Entry
	done    int
	stuck   int // of done
}

func (t *trial) outcome() *Outcome {
	return &Outcome{Work: t.w, Tasks: t.tasks, entries: make([]Entry, len(t.tasks))}
}

func (o *Outcome) add(e Entry) error {
	if err := e.matches(o.Tasks); err != nil {
		return err
	}
	if !o.entries[e.Index].End.IsZero() {
		o.again = append(o.again, e)
		return nil
	}
	o.entries[e.Index] = e
	o.done++
	if e.Key == 0 && o.Stuck > 0 {
		o.stuck++
	}
	return nil
}

// over reports whether all that counts is done. Nobody waits for a key that is stuck.
func (o *Outcome) over() bool {
	stuck := 0
	if o.Stuck > 0 && !o.Without {
		for _, t := range o.Tasks {
			if t.Key == 0 {
				stuck++
			}
		}
	}
	return o.done-o.stuck == len(o.Tasks)-stuck
}

// Done is how many records were handled, once or more often.
func (o *Outcome) Done() int { return o.done }

// Duplicates is how often a record was handled again.
func (o *Outcome) Duplicates() int { return len(o.again) }

// of are the first entries of tasks that pass the filter.
func (o *Outcome) of(pass func(*Entry) bool) (list []*Entry) {
	for i := range o.entries {
		if e := &o.entries[i]; !e.End.IsZero() && pass(e) {
			list = append(list, e)
		}
	}
	return list
}

// Everything and Others are the records that count.
func Everything(*Entry) bool { return true }

// Others are those that are not of key 0.
func Others(e *Entry) bool { return e.Key != 0 }

// PerSecond is how many records were handled each second, from the first that ended to the last.
func (o *Outcome) PerSecond(pass func(*Entry) bool) float64 {
	list := o.of(pass)
	if len(list) < 2 {
		return 0
	}
	first, last := list[0].End, list[0].End
	for _, e := range list {
		if e.End.Before(first) {
			first = e.End
		}
		if e.End.After(last) {
			last = e.End
		}
	}
	return float64(len(list)-1) / last.Sub(first).Seconds()
}

// Busy is how many records were in work at a time, on average.
func (o *Outcome) Busy() float64 {
	var sum time.Duration
	last := o.Begin
	for _, e := range o.of(Everything) {
		sum += e.End.Sub(e.Start)
		if e.End.After(last) {
			last = e.End
		}
	}
	return float64(sum) / float64(max(last.Sub(o.Begin), 1))
}

// AtOnce is how many records were in work at one moment, at most.
func (o *Outcome) AtOnce() (most int) {
	type change struct {
		at time.Time
		by int
	}
	var all []change
	for _, e := range o.of(Everything) {
		all = append(all, change{e.Start, 1}, change{e.End, -1})
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), a.by-b.by) }) // what ends frees its place for what begins
	now := 0
	for _, c := range all {
		now += c.by
		most = max(most, now)
	}
	return most
}

// Latency is the q quantile of the time from when a record was due (of paced work), or from the begin, to its end. What is not done took for ever.
func (o *Outcome) Latency(q float64, skip time.Duration, pass func(*Entry) bool) time.Duration {
	var all []time.Duration
	for i := range o.entries {
		e, due := &o.entries[i], o.due(i)
		if o.Rate > 0 && due < skip || !pass(&Entry{Task: o.Tasks[i]}) {
			continue
		}
		if e.End.IsZero() {
			all = append(all, math.MaxInt64)
			continue
		}
		all = append(all, e.End.Sub(o.Begin)-due)
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[max(0, min(len(all)-1, int(math.Ceil(q*float64(len(all))))-1))]
}

// due is when a record was due, after the begin.
func (o *Outcome) due(index int) time.Duration {
	if o.Rate == 0 {
		return 0
	}
	return o.Work.due(index)
}

// Overtaken is how many records were begun before an earlier one of their key had ended.
func (o *Outcome) Overtaken() (n int) {
	latest := make([]time.Time, o.Keys)
	undone := make([]bool, o.Keys)
	for i, task := range o.Tasks {
		e := &o.entries[i]
		if e.End.IsZero() {
			undone[task.Key] = true
			continue
		}
		if undone[task.Key] || e.Start.Before(latest[task.Key]) {
			n++
		}
		if e.End.After(latest[task.Key]) {
			latest[task.Key] = e.End
		}
	}
	return n
}
