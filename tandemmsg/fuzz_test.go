package tandemmsg

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Every decoder: never panics; what it accepts is valid, and encodes to no more bytes, which decode to the same.

func FuzzFields(f *testing.F) {
	f.Add(array(2, 0, 5, 6, 9))
	f.Add(append(array(2, 0, 9), append(array(1, 1, 2), append(array(0, 10, 19)[1:], array(0)...)...)...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add(make([]byte, 8))
	f.Add([]byte{0, 0, 0, 4})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		kept := bytes.Clone(b)
		if set, err := decodeKeyRanges(b); err == nil {
			must(t, set.Validate())
			again := encodeKeyRanges(set)
			if set2, err := decodeKeyRanges(again); len(set) > 0 && (err != nil || !reflect.DeepEqual(set, set2)) || len(again) > len(b) {
				t.Errorf("% x: %v became %v, %v", b, set, set2, err)
			}
		}
		if ranges, err := decodeOffsetRanges(b); err == nil {
			must(t, checkCommitRanges("", ranges))
			again := encodeOffsetRanges(ranges)
			if ranges2, err := decodeOffsetRanges(again); len(ranges) > 0 && (err != nil || !reflect.DeepEqual(ranges, ranges2)) || len(again) > len(b) {
				t.Errorf("% x: %v became %v, %v", b, ranges, ranges2, err)
			}
		}
		if committed, err := decodeCommitted(b); err == nil {
			var p kmsg.OffsetFetchResponseTopicPartition
			must(t, SetCommittedRangeOffsets(&p, committed))
			again, _ := find(&p.UnknownTags, TagCommittedRangeOffsets)
			if committed2, err := CommittedRangeOffsets(&p); err != nil || !reflect.DeepEqual(committed, committed2) || len(again) > len(b) {
				t.Errorf("% x: %v became %v, %v", b, committed, committed2, err)
			}
		}
		var p kmsg.FetchResponseTopicPartition
		p.UnknownTags.Set(TagScannedOffset, b)
		if offset, err := ScannedOffset(&p); err == nil {
			must(t, SetScannedOffset(&p, offset))
		}
		var q kmsg.FetchRequestTopicPartition
		q.UnknownTags.Set(TagKeyAxisBase, b)
		if base, err := KeyAxisBase(&q); err == nil {
			must(t, SetKeyAxisBase(&q, base))
			if again, err := KeyAxisBase(&q); err != nil || again != base || base < 0 {
				t.Errorf("% x: base %d became %d, %v", b, base, again, err)
			}
		}
		var r kmsg.FetchRequest
		r.UnknownTags.Set(TagMember, b)
		if m, ok, err := FetchMember(&r); err == nil {
			var again kmsg.FetchRequest
			must(t, SetFetchMember(&again, m))
			if m2, _, err := FetchMember(&again); !ok || err != nil || m2 != m {
				t.Errorf("% x: %+v became %+v, %v", b, m, m2, err)
			}
		}
		if !bytes.Equal(b, kept) {
			t.Error("the input was written to")
		}
	})
}

func FuzzText(f *testing.F) {
	for _, text := range []string{"ranges=45-47,50-50", "ranges=0-0 keys=0-2147483647,3000000000-4294967295", "ranges=", "ranges=1-1,,", "ranges=1-1 keys=", "ranges=1-1 keys=0-9 base=4", "ranges=1-1 base=", "ranges=1-1 base=4 keys=0-9"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, ours, err := ParseText(text)
		if !ours || err != nil {
			if len(c.Offsets) > 0 || !ours && err != nil {
				t.Errorf("%q: %+v, %v, %v", text, c, ours, err)
			}
			return
		}
		if again, err := c.Text(); err != nil || again != text {
			t.Errorf("%q became %q, %v", text, again, err)
		}
	})
}

// Requests as they come in from anyone, in any version.
func FuzzRequests(f *testing.F) {
	req := commitsOf(topicOf("orders", Commit{Offsets: []OffsetRange{{45, 47}}, Watermark: -1}))
	req.Version = 9
	f.Add(int16(9), req.AppendTo(nil))
	req = commitsOf(topicOf("orders", Commit{Keys: lowerHalf, Base: 4, Offsets: []OffsetRange{{45, 47}}, Watermark: -1}, Commit{Keys: lowerHalf, Base: -1, Watermark: 48}))
	req.Version = 9
	f.Add(int16(9), req.AppendTo(nil))
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 17
	fetch.UnknownTags.Set(TagKeyRanges, array(1, 0, 9))
	fetch.UnknownTags.Set(TagKeyAxisBase, []byte{0, 0, 0, 4})
	f.Add(int16(17), fetch.AppendTo(nil))
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		read := func(m message) bool {
			if version < 0 || version > m.MaxVersion() {
				return false
			}
			m.SetVersion(version)
			return m.ReadFrom(body) == nil
		}
		if req := kmsg.NewPtrOffsetCommitRequest(); read(req) {
			commits, err := ReadCommits(req)
			total, facts := 0, 0
			for _, c := range commits {
				must(t, c.Validate())
				total += len(c.Offsets)
				facts += max(len(c.Keys), 1) * max(len(c.Offsets), 1)
			}
			if total > MaxOffsetRanges || facts > MaxFacts || err != nil && commits != nil {
				t.Errorf("%d ranges, %d facts, %v", total, facts, err)
			}
		}
		if req := kmsg.NewPtrTxnOffsetCommitRequest(); read(req) {
			_, _ = ReadCommits(req)
		}
		if req := kmsg.NewPtrFetchRequest(); read(req) {
			_, _ = KeyRanges(req)
			_, _ = KeyAxisBase(req)
			for ti := range req.Topics {
				for pi := range req.Topics[ti].Partitions {
					_, _ = KeyRanges(&req.Topics[ti].Partitions[pi])
					_, _ = KeyAxisBase(&req.Topics[ti].Partitions[pi])
				}
			}
		}
		if resp := kmsg.NewPtrOffsetFetchResponse(); read(resp) {
			for gi := range resp.Groups {
				for ti := range resp.Groups[gi].Topics {
					for pi := range resp.Groups[gi].Topics[ti].Partitions {
						_, _ = CommittedRangeOffsets(&resp.Groups[gi].Topics[ti].Partitions[pi])
						_, _ = KeyAxisBase(&resp.Groups[gi].Topics[ti].Partitions[pi])
					}
				}
			}
		}
		if resp := kmsg.NewPtrApiVersionsResponse(); read(resp) {
			ReadFeatures(resp)
		}
	})
}
