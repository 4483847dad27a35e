package inspect

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/attempts"
	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/client/internal/fetcher"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
)

// maxScan is how many records of a partition are read at most to find those that are not done.
const maxScan = 200_000

// open fills in what is not done of a partition.
func (in *inspection) open(ctx context.Context, p *Partition, c *commits.Committed) error {
	from := max(p.Start, c.Offset)
	holes := holesIn(from, p.End, c.Above)
	p.Open, p.OpenCount = holes[:min(len(holes), in.Records)], len(holes)
	kept := in.keptOf(p.Topic, p.Partition, in.topics[p.Topic].ID)
	for _, v := range p.Views { // whose offsets are the partition's
		for _, vp := range v.Partitions {
			maps.Copy(kept, in.keptOf(v.Name, vp.Partition, in.views[v.Name].BackingID))
		}
	}
	maps.DeleteFunc(kept, func(offset int64, _ attempts.State) bool { return offset < from || offset >= p.End })
	s := &scan{in: in, p: p, base: c.Base, filter: done.NewFilter(c.Above), kept: kept, keys: map[string]bool{}}
	if err := s.oldest(ctx, holes); err != nil {
		return err
	}
	return s.attempted(ctx)
}

// keptOf are the attempts that are kept of a partition's records.
func (in *inspection) keptOf(topic string, partition int32, id kadm.TopicID) map[int64]attempts.State {
	kept := in.attempts.Of(topic, partition)
	maps.DeleteFunc(kept, func(_ int64, s attempts.State) bool { return s.TopicID != id.String() })
	return kept
}

// holesIn are the offsets in [from, end) that are not done for all keys.
func holesIn(from, end int64, above []done.Committed) (holes []OffsetRange) {
	if from >= end {
		return nil
	}
	var keys []keyrange.Range
	byKeys := map[keyrange.Range][]offsets.Range{}
	for _, c := range above {
		if _, ok := byKeys[c.Keys]; !ok {
			keys = append(keys, c.Keys)
		}
		byKeys[c.Keys] = append(byKeys[c.Keys], c.Ranges...)
	}
	if !keyrange.Normalize(keys).Covers(keyrange.Full) {
		return []OffsetRange{{First: from, Last: end - 1}} // of some keys nothing is done there
	}
	for _, of := range byKeys {
		next := from
		for _, r := range of {
			if r.First > next {
				holes = append(holes, OffsetRange{First: next, Last: min(r.First, end) - 1})
			}
			next = max(next, r.Last+1)
		}
		if next < end {
			holes = append(holes, OffsetRange{First: next, Last: end - 1})
		}
	}
	slices.SortFunc(holes, func(a, b OffsetRange) int { return cmp.Compare(a.First, b.First) })
	merged := holes[:0]
	for _, h := range holes {
		if n := len(merged); n > 0 && h.First <= merged[n-1].Last+1 {
			merged[n-1].Last = max(merged[n-1].Last, h.Last)
			continue
		}
		merged = append(merged, h)
	}
	return merged
}

// scan looks for the open records of a partition.
type scan struct {
	in     *inspection
	p      *Partition
	base   int32
	filter *done.Filter
	kept   map[int64]attempts.State
	keys   map[string]bool // that were found
}

// oldest finds the first open record of each key, until there is one too many.
func (s *scan) oldest(ctx context.Context, holes []OffsetRange) error {
	read, next := 0, int64(0)
	for i := 0; i < len(holes); {
		if next = max(next, holes[i].First); next > holes[i].Last {
			i++
			continue
		}
		if s.p.Cut = s.p.Cut || read >= maxScan; s.p.Cut {
			return nil
		}
		b, err := s.in.fetcher.Read(ctx, fetcher.Stream{Topic: s.p.Topic, Partition: s.p.Partition, Offset: next})
		if err != nil {
			return err
		}
		if b.Next <= next { // the end, or one that went back
			return nil
		}
		for _, r := range b.Records {
			if r.Offset < s.p.End {
				s.look(r)
			}
		}
		read, next = read+len(b.Records), b.Next
	}
	return nil
}

// look takes a record in, if it is the first open one of its key.
func (s *scan) look(r *kgo.Record) {
	if s.p.Cut || r.Offset < s.p.Stable || s.filter.Has(positionOf(r)(s.base), r.Offset) {
		return
	}
	if r.Key != nil && s.keys[string(r.Key)] {
		return
	}
	if s.p.Cut = len(s.p.Records) >= s.in.Records; s.p.Cut {
		return
	}
	if r.Key != nil {
		s.keys[string(r.Key)] = true
	}
	s.p.Records = append(s.p.Records, s.describe(r))
}

// attempted takes in the records that were attempted and that oldest did not come to, which are the first of their keys.
func (s *scan) attempted(ctx context.Context) error {
	for _, r := range s.p.Records {
		delete(s.kept, r.Offset)
	}
	for i, offset := range slices.Sorted(maps.Keys(s.kept)) {
		if i == s.in.Records {
			break
		}
		b, err := s.in.fetcher.Read(ctx, fetcher.Stream{Topic: s.p.Topic, Partition: s.p.Partition, Offset: offset})
		if err != nil {
			return err
		}
		if len(b.Records) > 0 && b.Records[0].Offset == offset {
			s.p.Records = append(s.p.Records, s.describe(b.Records[0]))
		}
	}
	slices.SortFunc(s.p.Records, func(a, b Record) int { return cmp.Compare(a.Offset, b.Offset) })
	return nil
}

func (s *scan) describe(r *kgo.Record) Record {
	out := Record{Offset: r.Offset, Key: slices.Clone(r.Key), Timestamp: r.Timestamp, Virtual: -1}
	if out.Owner = s.in.ownerOf(r.Topic, r.Partition, positionOf(r)); out.Owner == nil {
		for _, v := range s.p.Views {
			vp := s.in.views[v.Name].VirtualPartition(r.Key, r.Offset, r.Partition)
			if owner := s.in.ownerOf(v.Name, vp, nil); owner != nil || out.View == "" {
				out.Owner, out.View, out.Virtual = owner, v.Name, vp
			}
		}
	}
	if k, ok := s.kept[r.Offset]; ok {
		out.Attempts, out.Final, out.Cause = int(k.Attempts), k.Final, k.Cause
		if k.NextAt > 0 {
			out.NextAt = time.Unix(0, k.NextAt)
		}
	}
	return out
}

// positionOf works out where a record lies on the key axis of a base.
func positionOf(r *kgo.Record) func(base int32) uint32 {
	return func(base int32) uint32 {
		if r.Key == nil {
			return keyrange.NullPosition(r.Offset)
		}
		return keyrange.Position(r.Key, base)
	}
}
