package slicecache

import (
	"slices"
	"time"
)

const (
	// freshFor is how old the knowledge of the source's end may be for an answer that says that a slice has no more records.
	freshFor = 100 * time.Millisecond
	// pollAge is how long a long poll must have been out to show that there is nothing to get at once.
	pollAge = 10 * time.Millisecond
)

// fresh says that the source's end is what the cluster would answer now, or nearly: a long poll is there to tell.
func (r *reader) fresh() bool {
	if time.Since(r.asOf) < freshFor {
		return true
	}
	for _, l := range r.loads {
		if out := time.Since(l.asked); l.wait > 0 && l.sent && out >= pollAge && out < l.wait+freshFor {
			return true
		}
	}
	return false
}

// answered takes in what a Fetch answer says of the log. seenEnd is the source's end known when the request was sent:
// an answer that ends lower shows that the log was cut (or that a new leader has not yet heard of its end), and everything
// above is forgotten. An answer that is merely late shows nothing.
func (r *reader) answered(f Fetched, seenEnd int64, asked time.Time) {
	r.asOf = asked
	end := f.HighWatermark
	r.other = f.LastStableOffset
	if r.readCommitted {
		end, r.other = f.LastStableOffset, f.HighWatermark
	}
	if n, _ := walk(f.Raw); n > end {
		end = n // brokers read the high watermark before the records
	}
	if end >= 0 && seenEnd > end {
		r.truncated(end)
		r.p.logStart = f.LogStart
	}
	r.end = max(r.end, end)
	r.setLogStart(f.LogStart)
}

// ends returns the source's high watermark and last stable offset as far as they are known, -1: not known.
func (r *reader) ends() (highWatermark, lastStable int64) {
	switch {
	case r.readCommitted:
		return max(r.other, r.end), r.end
	case r.other < 0:
		return r.end, -1
	}
	return r.end, min(r.other, r.end)
}

func (r *reader) setLogStart(logStart int64) {
	if logStart <= r.p.logStart {
		return
	}
	r.p.logStart = logStart
	for _, q := range []*reader{r.p.committed, r.p.uncommitted} {
		for sl := range q.all {
			for len(sl.blocks) > 0 && sl.blocks[0].End <= logStart {
				r.c.budget.remove(&sl.blocks[0].entry)
				sl.blocks = sl.blocks[1:]
			}
		}
	}
}

// truncated forgets what was known at and above end.
func (r *reader) truncated(end int64) {
	r.c.cfg.Logger.Warn("the source's end went back, forgetting what was read above it; after an unclean leader election records may be lost",
		"topic", r.p.src.Topic, "partition", r.p.src.Partition, "known", r.end, "now", end)
	r.resets++
	r.end = end
	for _, q := range []*reader{r.p.committed, r.p.uncommitted} {
		if q != r {
			q.resets++
			q.end = min(q.end, end)
		}
		for sl := range q.all {
			sl.blocks = slices.DeleteFunc(sl.blocks, func(b *block) bool {
				if b.End > end {
					r.c.budget.remove(&b.entry)
				}
				return b.End > end
			})
			for i := range sl.slices {
				s := &sl.slices[i]
				s.gaps.cut(end)
				if s.last >= end {
					s.last = -1
				}
			}
		}
		q.dropRaws()
	}
}
