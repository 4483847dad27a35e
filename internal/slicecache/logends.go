package slicecache

import "time"

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
	if r.readCommitted {
		end = f.LastStableOffset
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

func (r *reader) setLogStart(logStart int64) {
	if logStart <= r.p.logStart {
		return
	}
	r.p.logStart = logStart
	for _, q := range []*reader{r.p.committed, r.p.uncommitted} {
		for _, sl := range q.slicings {
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
		for _, sl := range q.slicings {
			for n := len(sl.blocks); n > 0 && sl.blocks[n-1].End > end; n-- {
				r.c.budget.remove(&sl.blocks[n-1].entry)
				sl.blocks = sl.blocks[:n-1]
			}
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
