package commits

import (
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// said is what is said of partitions: how many facts, and a sum that depends on each of them.
type said map[int32][2]uint64

func (s said) add(partition int32, keys keyrange.Range, offsets offsets.Range) {
	x := uint64(keys.First)<<32 | uint64(keys.Last)
	for _, v := range []uint64{uint64(offsets.First), uint64(offsets.Last), 1} { // splitmix64's finalizer
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x = x ^ x>>31 + v
	}
	of := s[partition]
	s[partition] = [2]uint64{of[0] + 1, of[1] + x}
}

// Requests say what the entries say, no more and no less, within the limits, and name no partition twice.
func TestRequestsSayWhatTheEntriesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(rapid.Custom(drawEntry), 0, 5).Draw(t, "entries")
		wanted, got := make(said), make(said)
		for _, e := range entries {
			of := e.Partition.Partition
			if e.Plain {
				if e.Watermark >= 0 {
					wanted.add(of, keyrange.Range{}, offsets.Range{First: 0, Last: e.Watermark})
				}
				continue
			}
			keys := e.Keys
			if len(keys) == 0 {
				keys = keyrange.Set{keyrange.Full}
			}
			for _, k := range keys {
				if e.Watermark > 0 {
					wanted.add(of, k, offsets.Range{First: 0, Last: e.Watermark - 1})
				}
				for _, r := range e.Ranges {
					if r.First = max(r.First, e.Watermark); r.First <= r.Last {
						wanted.add(of, k, r)
					}
				}
			}
		}
		for _, r := range pack(cutAll(entries)) {
			readBack(t, r, got)
		}
		if !maps.Equal(wanted, got) {
			t.Fatalf("said is %v, not %v", got, wanted)
		}
	})
}

// readBack reads what a request says.
func readBack(t *rapid.T, r *request, got said) {
	req := r.message()
	list, err := tandemmsg.ReadCommits(req) // knows the limits
	if err != nil {
		t.Fatal(err)
	}
	if r.additions != (len(list) > 0) {
		t.Fatalf("additions: %v, but %d say something", r.additions, len(list))
	}
	seen := make(map[int32]bool)
	for _, c := range list {
		of := req.Topics[c.Topic].Partitions[c.Partition].Partition
		if seen[of] {
			t.Fatalf("partition %d is there twice", of)
		}
		seen[of] = true
		for _, k := range c.Keys {
			if c.Watermark > 0 {
				got.add(of, k, offsets.Range{First: 0, Last: c.Watermark - 1})
			}
			for _, o := range c.Offsets {
				got.add(of, k, offsets.Range(o))
			}
		}
	}
	for _, p := range req.Topics[0].Partitions { // the ordinary ones
		if seen[p.Partition] {
			continue
		}
		seen[p.Partition] = true
		if p.UnknownTags.Len() > 0 {
			t.Fatalf("an ordinary commit: %+v", p)
		}
		got.add(p.Partition, keyrange.Range{}, offsets.Range{First: 0, Last: p.Offset})
	}
	if len(seen) != len(req.Topics[0].Partitions) && len(list) > 0 || len(req.Topics) != 1 {
		t.Fatalf("%d partitions in %d rows", len(seen), len(req.Topics[0].Partitions))
	}
}

func drawEntry(t *rapid.T) Entry {
	e := Entry{Partition: Partition{Topic: "t", Partition: rapid.Int32Range(0, 2).Draw(t, "partition"), Base: 3}, Watermark: rapid.Int64Range(-1, 20).Draw(t, "watermark")}
	if e.Plain = rapid.IntRange(0, 4).Draw(t, "plain") == 0; e.Plain {
		e.Partition.Partition += 10
		return e
	}
	n := rapid.SampledFrom([]int{0, 1, 2, 30, 1024, 1500}).Draw(t, "key ranges")
	for i := range n {
		e.Keys = append(e.Keys, keyrange.Range{First: uint32(4 * i), Last: uint32(4*i + 1)})
	}
	n = rapid.SampledFrom([]int{0, 1, 5, 300, 7000, 61_000}).Draw(t, "ranges")
	if len(e.Keys) > 30 { // more than MaxFacts at most
		n = min(n, 300)
	}
	first := rapid.Int64Range(0, 30).Draw(t, "first")
	for i := range int64(n) {
		e.Ranges = append(e.Ranges, offsets.Range{First: first + 3*i, Last: first + 3*i + 1})
	}
	return e
}

// What comes back for key ranges is cut to those asked for.
func TestClip(t *testing.T) {
	of := []tandemmsg.KeyRangeOffsets{
		{Keys: keyrange.Range{First: 0, Last: 99}, Offsets: []tandemmsg.OffsetRange{{First: 5, Last: 6}}},
		{Keys: keyrange.Range{First: 200, Last: 299}, Offsets: []tandemmsg.OffsetRange{{First: 7, Last: 8}, {First: 10, Last: 10}}},
	}
	got := clip(of, keyrange.Set{{First: 50, Last: 60}, {First: 70, Last: 249}})
	var keys keyrange.Set
	for _, c := range got {
		keys = append(keys, c.Keys)
	}
	if !slices.Equal(keys, keyrange.Set{{First: 50, Last: 60}, {First: 70, Last: 99}, {First: 200, Last: 249}}) || len(got[1].Ranges) != 1 || len(got[2].Ranges) != 2 {
		t.Errorf("%+v", got)
	}
	if got := clip(of, nil); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// Who asks for more key ranges than a request may have is given all, and the answer is cut.
func TestQuestion(t *testing.T) {
	var parts []Partition
	for i := range int32(1500) {
		parts = append(parts, Partition{Topic: "t", Partition: i % 3, Keys: keyrange.Set{{First: uint32(4 * i), Last: uint32(4*i + 1)}}, Base: 3})
	}
	parts = append(parts, Partition{Topic: "t", Partition: 1, Plain: true})
	q, err := question("g", parts)
	if err != nil || len(q.topics) != 2 || !q.additions {
		t.Fatal(q, err)
	}
	keys, err := tandemmsg.KeyRanges(&q.topics[0])
	if err != nil || !slices.Equal(keys, keyrange.Set{keyrange.Full}) || len(q.topics[0].Partitions) != 3 {
		t.Error(keys, err, q.topics[0].Partitions)
	}
	if q.topics[1].UnknownTags.Len() > 0 || !slices.Equal(q.topics[1].Partitions, []int32{1}) {
		t.Errorf("%+v", q.topics[1])
	}
	if _, err := read(kmsg.NewPtrOffsetFetchResponse()); err != nil {
		t.Error(err)
	}
}

// A version without room for the additions commits nothing in their place.
func TestOldVersionsCommitNothing(t *testing.T) {
	for version := range int16(lastNamed + 1) {
		r := pack(cutAll([]Entry{{Partition: Partition{Topic: "t"}, Watermark: 5}}))[0]
		req := &commitRequest{r.message(), r.additions}
		req.SetVersion(version)
		var got kmsg.OffsetCommitRequest
		got.Version = version
		if err := got.ReadFrom(req.AppendTo(nil)); err != nil || len(got.Topics) > 0 != (version >= tagged) {
			t.Errorf("v%d: %d topics, %v", version, len(got.Topics), err)
		}
	}
}
