package tandemmsg

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

func drawAcquired(t *rapid.T) []AcquiredRange {
	var ranges []AcquiredRange
	for _, r := range drawOffsets(t, 0) {
		ranges = append(ranges, AcquiredRange{r, rapid.Int32Min(1).Draw(t, "attempt")})
	}
	return ranges
}

func TestFetchRequestsCarryCooperation(t *testing.T) {
	everyVersion(t, kmsg.NewPtrFetchRequest(), 12, func(t *rapid.T, version int16, travels bool) {
		want := Cooperative{
			Group: rapid.StringN(1, -1, -1).Draw(t, "group"), Member: rapid.StringN(1, -1, -1).Draw(t, "member"), Generation: rapid.Int32Min(0).Draw(t, "generation"),
			SessionTimeout: rapid.Int32Range(0, MaxSessionTimeout).Draw(t, "timeout"), MaxRecords: rapid.Int32Min(-1).Draw(t, "records"),
		}
		has := drawAcquired(t)
		topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		must(t, SetAcquiredRanges(&p, has))
		topic.Partitions = append(topic.Partitions, p)
		req, got := kmsg.NewPtrFetchRequest(), kmsg.NewPtrFetchRequest()
		req.Version, got.Version = version, version
		req.Topics = append(req.Topics, topic)
		req.ClusterID = kmsg.StringPtr("cluster")
		must(t, WriteCooperative(req, want))
		travel(t, req, got)
		c, ok, err := ReadCooperative(got)
		if !travels {
			want, has = Cooperative{}, nil
		}
		if ok != travels || err != nil || c != want {
			t.Fatalf("%+v became %+v, %v, %v", want, c, ok, err)
		}
		if ranges, err := AcquiredRanges(&got.Topics[0].Partitions[0]); err != nil || !reflect.DeepEqual(ranges, has) {
			t.Fatalf("%v became %v, %v", has, ranges, err)
		}
	})
}

func TestFetchResponsesCarryAcquiredRanges(t *testing.T) {
	everyVersion(t, kmsg.NewPtrFetchResponse(), 12, func(t *rapid.T, version int16, travels bool) {
		topic, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		want := drawAcquired(t)
		must(t, SetAcquiredRanges(&p, want))
		topic.Partitions = append(topic.Partitions, p)
		resp, got := kmsg.NewPtrFetchResponse(), kmsg.NewPtrFetchResponse()
		resp.Version, got.Version = version, version
		resp.Topics = append(resp.Topics, topic)
		travel(t, resp, got)
		if !travels {
			want = nil
		}
		if ranges, err := AcquiredRanges(&got.Topics[0].Partitions[0]); err != nil || !reflect.DeepEqual(ranges, want) {
			t.Fatalf("%v became %v, %v", want, ranges, err)
		}
	})
}

func TestMalformedCooperationSaysWhatIsWrong(t *testing.T) {
	number := func(b ...byte) []byte { return b }
	for _, c := range []struct {
		name  string
		tag   uint32
		bytes []byte
		want  string
	}{
		{"no group", TagGroupID, []byte{1}, "GroupId: it is empty"},
		{"null group", TagGroupID, []byte{0}, "GroupId: as a compact string, its array is null"},
		{"long group", TagGroupID, []byte{3, 'g'}, "GroupId: as a compact string"},
		{"something behind", TagGroupID, []byte{2, 'g', 'h'}, "GroupId: 1 bytes follow its string of 1"},
		{"no UTF-8", TagGroupID, []byte{2, 0xff}, "GroupId: its string is not UTF-8"},
		{"no member", TagMemberID, []byte{1}, "MemberId: a cooperative fetch needs one"},
		{"generation", TagGenerationID, number(0xff, 0xff, 0xff, 0xff), "GenerationId: -1 is negative"},
		{"short generation", TagGenerationID, number(0, 1), "GenerationId: 2 bytes, an int32 has 4"},
		{"timeout", TagSessionTimeout, number(0x7f, 0, 0, 0), "SessionTimeout: 2130706432 is not in 0 to 3600000"},
		{"records", TagMaxRecords, number(0xff, 0xff, 0xff, 0xfe), "MaxRecords: -2 is below -1"},
	} {
		req := kmsg.NewPtrFetchRequest()
		must(t, WriteCooperative(req, Cooperative{Group: "g", Member: "m", MaxRecords: -1}))
		req.UnknownTags.Set(c.tag, c.bytes)
		if _, ok, err := ReadCooperative(req); !ok || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, error %v, want %q", c.name, ok, err, c.want)
		}
	}
	for name, c := range map[string]Cooperative{"group": {Member: "m"}, "member": {Group: "g"}, "generation": {Group: "g", Member: "m", Generation: -1}} {
		req := kmsg.NewPtrFetchRequest()
		if err := WriteCooperative(req, c); err == nil || req.UnknownTags.Len() > 0 {
			t.Errorf("%s: error %v, %d tags", name, err, req.UnknownTags.Len())
		}
	}
	one := func(first, last int64, attempt byte) []byte { return append(array(1, first, last), 0, 0, 0, attempt) }
	for want, b := range map[string][]byte{
		"AcquiredRanges: ends before":                      {},
		"AcquiredRanges: 1 bytes follow":                   append(one(1, 2, 1), 0),
		"AcquiredRanges[0]: attempt 0 is below 1":          one(1, 2, 0),
		"AcquiredRanges[0]: 3-2 ends before it begins":     one(3, 2, 1),
		"AcquiredRanges[1]: 2-3 is not after":              append(append(array(2, 1, 2), 0, 0, 0, 1), append(array(0, 2, 3)[1:], 0, 0, 0, 1)...),
		"AcquiredRanges: its array of 2 elements would":    append(array(2, 1, 2), 0, 0, 0, 1),
		"AcquiredRanges: 60001 ranges, at most 60000 are ": append(appendLen(nil, MaxAcquired+1), make([]byte, (MaxAcquired+1)*acquiredSize)...),
	} {
		var p kmsg.FetchResponseTopicPartition
		p.UnknownTags.Set(TagAcquiredRanges, b)
		if _, err := AcquiredRanges(&p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	var p kmsg.FetchResponseTopicPartition
	if err := SetAcquiredRanges(&p, []AcquiredRange{{OffsetRange{1, 2}, 0}}); err == nil || p.UnknownTags.Len() > 0 {
		t.Errorf("error %v, %d tags", err, p.UnknownTags.Len())
	}
}

// It never panics, and what it accepts is valid and travels as it is.
func FuzzCooperation(f *testing.F) {
	f.Add([]byte{2, 'g'}, []byte{2, 'm'}, []byte{0, 0, 0, 5}, append(array(1, 4, 7), 0, 0, 0, 1))
	f.Fuzz(func(t *testing.T, group, member, number, acquired []byte) {
		req := kmsg.NewPtrFetchRequest()
		req.UnknownTags.Set(TagGroupID, group)
		req.UnknownTags.Set(TagMemberID, member)
		for _, tag := range []uint32{TagGenerationID, TagSessionTimeout, TagMaxRecords} {
			req.UnknownTags.Set(tag, number)
		}
		if c, ok, err := ReadCooperative(req); err == nil {
			again := kmsg.NewPtrFetchRequest()
			must(t, WriteCooperative(again, c))
			if c2, ok2, err := ReadCooperative(again); err != nil || !ok || !ok2 || c2 != c {
				t.Errorf("%+v became %+v, %v", c, c2, err)
			}
		}
		var p kmsg.FetchRequestTopicPartition
		p.UnknownTags.Set(TagAcquiredRanges, bytes.Clone(acquired))
		if ranges, err := AcquiredRanges(&p); err == nil {
			must(t, SetAcquiredRanges(&p, ranges))
			if again, err := AcquiredRanges(&p); err != nil || !reflect.DeepEqual(again, ranges) {
				t.Errorf("%v became %v, %v", ranges, again, err)
			}
		}
	})
}
