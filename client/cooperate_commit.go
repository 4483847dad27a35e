package client

import (
	"cmp"
	"slices"

	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
)

// entries are what commits of acquired ranges say of their partitions: all that are of one partition make one entry. Those of is set for are left out.
func (c *coop) entries(list []executor.Commit, of []int) (entries []commits.Entry) {
	for i, commit := range list {
		a := c.of(commit.TP)
		if a == nil || of[i] != nothing {
			continue
		}
		done := commit.Ranges
		if commit.Watermark > a.first {
			done = append([]offsets.Range{{First: a.first, Last: min(commit.Watermark-1, a.last)}}, done...)
		}
		if len(done) == 0 {
			continue
		}
		n := slices.IndexFunc(entries, func(e commits.Entry) bool { return e.Topic == a.tp.Topic && e.Partition.Partition == a.tp.Partition })
		if n < 0 {
			n = len(entries)
			entries = append(entries, commits.Entry{Partition: commits.Partition{Topic: a.tp.Topic, Partition: a.tp.Partition}, Watermark: -1})
		}
		entries[n].Ranges = append(entries[n].Ranges, done...)
		of[i] = n
	}
	for i := range entries {
		entries[i].Ranges = joined(entries[i].Ranges)
	}
	return entries
}

// joined are ranges in order, with those that touch as one.
func joined(ranges []offsets.Range) []offsets.Range {
	slices.SortFunc(ranges, func(a, b offsets.Range) int { return cmp.Compare(a.First, b.First) })
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out) - 1; n >= 0 && out[n].Last+1 >= r.First {
			out[n].Last = max(out[n].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// committed lets go of what is committed as a whole.
func (c *coop) committed(list []executor.Commit, errs []error) {
	for i, commit := range list {
		a := c.of(commit.TP)
		if a == nil || errs != nil && errs[i] != nil {
			continue
		}
		if commit.Watermark <= a.last {
			c.settle(commit.TP, func(o int64) bool {
				return o < commit.Watermark || slices.ContainsFunc(commit.Ranges, func(r offsets.Range) bool { return r.First <= o && o <= r.Last })
			})
			continue
		}
		c.forget(commit.TP)
		c.s.runner.Lost(commit.TP, nil)
	}
}
