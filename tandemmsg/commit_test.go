package tandemmsg

import (
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

func TestTextsTravelAsCommits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Commit{Keys: drawKeys(t, 0), Base: drawBase(t), Offsets: drawOffsets(t, 1), Watermark: -1}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		must(t, SetKeyRanges(&p, drawKeys(t, 0))) // has to go
		must(t, SetKeyAxisBase(&p, drawBase(t)))  // and so has this
		must(t, WriteCommitText(&p, want))
		got, ok, err := ReadCommit(&p)
		if err != nil || !ok || !sameCommit(got, want) || p.UnknownTags.Len() != 0 || p.Offset != -1 {
			t.Fatalf("%q: %+v, %v, %v, want %+v", *p.Metadata, got, ok, err, want)
		}
		if again, err := got.Text(); err != nil || again != *p.Metadata {
			t.Fatalf("%q became %q, %v", *p.Metadata, again, err)
		}
	})
}

func TestTheTextIsTheDocumentedOne(t *testing.T) {
	c := Commit{Keys: keyrange.Set{{First: 0, Last: 2147483647}}, Base: 4, Offsets: []OffsetRange{{45, 47}, {50, 50}}, Watermark: -1}
	if text, err := c.Text(); err != nil || text != "ranges=45-47,50-50 keys=0-2147483647 base=4" {
		t.Errorf("%q, %v", text, err)
	}
	c.Base = 0
	if text, err := c.Text(); err != nil || text != "ranges=45-47,50-50 keys=0-2147483647" {
		t.Errorf("%q, %v", text, err)
	}
	c.Keys = nil
	if text, err := c.Text(); err != nil || text != "ranges=45-47,50-50" {
		t.Errorf("%q, %v", text, err)
	}
}

// What is ours, what is an error and what is left alone: each text with the plain offset -1 and with another one.
func TestTextsAreToldApart(t *testing.T) {
	const commit, foreign = "commit", "" // anything else is a part of the error
	const plain = "the plain offset is 7"
	for text, want := range map[string][2]string{
		"ranges=45-47":                                 {commit, plain},
		"ranges=0-0":                                   {commit, plain},
		"ranges=45-47,48-48":                           {commit, plain},
		"ranges=45-47 keys=0-4294967295":               {commit, plain},
		"ranges=0-9223372036854775806":                 {commit, plain},
		"ranges=":                                      {"metadata text: ranges: the list is empty", foreign},
		"ranges= keys=0-1":                             {"ranges: the list is empty", foreign},
		"ranges=45":                                    {`ranges[0]: "45" is not of the form`, foreign},
		"ranges=45-":                                   {`"45-" is not of the form`, foreign},
		"ranges=45-47,":                                {`ranges[1]: "" is not of the form`, foreign},
		"ranges=45-47,50-":                             {`ranges[1]: "50-" is not of the form`, foreign},
		"ranges=45-47 ":                                {`"45-47 " is not of the form`, foreign},
		"ranges=45-47, 50-50":                          {`" 50-50" is not of the form`, foreign},
		"ranges=45-47 key=0-1":                         {`"45-47 key=0-1" is not of the form`, foreign},
		"ranges=45-47  keys=0-1":                       {"is not of the form", foreign},
		"ranges=45-47 keys=":                           {"keys: the list is empty", foreign},
		"ranges=45-47 keys=0-1 keys=2-3":               {`keys[0]: "0-1 keys=2-3"`, foreign},
		"ranges=45-47 keys=0-4294967296":               {"keys[0]: 0-4294967296 ends above", foreign},
		"ranges=045-47":                                {"is not of the form", foreign},
		"ranges=+45-47":                                {"is not of the form", foreign},
		"ranges=-5-47":                                 {"is not of the form", foreign},
		"ranges=4_5-47":                                {"is not of the form", foreign},
		"ranges=47-45":                                 {"ranges[0]: 47-45 ends before it begins", foreign},
		"ranges=45-47,47-50":                           {"ranges[1]: 47-50 is not after", foreign},
		"ranges=50-50,45-47":                           {"ranges[1]: 45-47 is not after", foreign},
		"ranges=0-9223372036854775807":                 {"ends above 9223372036854775806", foreign},
		"ranges=0-99999999999999999999":                {"is not of the form", foreign},
		"ranges=[the blue one]":                        {"is not of the form", foreign},
		"ranges=" + strings.Repeat("1", 99):            {"is not of the form", foreign},
		"ranges=" + strings.Repeat(",", 60_000):        {"60001 ranges, at most 60000", foreign},
		"ranges=1-1 keys=" + strings.Repeat(",", 5):    {`keys[0]: "" is not of the form`, foreign},
		"ranges=1-1 keys=" + strings.Repeat(",", 1024): {"keys: 1025 ranges, at most 1024", foreign},
		"ranges=45-47 keys=0-9 base=4":                 {commit, plain},
		"ranges=45-47 base=2147483647":                 {commit, plain},
		"ranges=45-47 base=0":                          {`base: "0" is no number from 1 to 2147483647`, foreign},
		"ranges=45-47 base=2147483648":                 {`base: "2147483648" is no number`, foreign},
		"ranges=45-47 base=4294967297":                 {`base: "4294967297" is no number`, foreign},
		"ranges=45-47 base=-4":                         {`base: "-4" is no number`, foreign},
		"ranges=45-47 base=04":                         {`base: "04" is no number`, foreign},
		"ranges=45-47 base=":                           {`base: "" is no number`, foreign},
		"ranges=45-47 base=4 ":                         {`base: "4 " is no number`, foreign},
		"ranges=45-47 base=4 base=4":                   {`base: "4 base=4" is no number`, foreign},
		"ranges=45-47 base=4 keys=0-9":                 {`base: "4 keys=0-9" is no number`, foreign},
		"ranges=45-47 keys= base=4":                    {"keys: the list is empty", foreign},
		"ranges= base=4":                               {"ranges: the list is empty", foreign},
		"":                                             {foreign, foreign},
		"ranges":                                       {foreign, foreign},
		"Ranges=45-47":                                 {foreign, foreign},
		" ranges=45-47":                                {foreign, foreign},
		"keys=0-1":                                     {foreign, foreign},
		"tandem:1:3:45":                                {foreign, foreign},
		"AgAAAYtkq0jwAAAAAA==":                         {foreign, foreign}, // as Kafka Streams'
		"host-7|ranges=45-47":                          {foreign, foreign},
		"\x00\xff ranges=45-47":                        {foreign, foreign},
	} {
		for i, offset := range []int64{-1, 7} {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Offset, p.Metadata = offset, &text
			c, ok, err := ReadCommit(&p)
			switch name := text[:min(len(text), 40)]; want[i] {
			case commit:
				if !ok || err != nil || c.Watermark != -1 || len(c.Offsets) == 0 {
					t.Errorf("%q at %d: %+v, %v, %v", name, offset, c, ok, err)
				}
			case foreign:
				if ok || err != nil {
					t.Errorf("%q at %d is not ours: %+v, %v, %v", name, offset, c, ok, err)
				}
			default:
				if ok || err == nil || !strings.Contains(err.Error(), want[i]) {
					t.Errorf("%q at %d: %v, %v, want %q", name, offset, ok, err, want[i])
				}
			}
		}
	}
}

func TestTagsComeBeforeTexts(t *testing.T) {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	must(t, WriteCommit(&p, Commit{Offsets: []OffsetRange{{1, 2}}, Watermark: -1}))
	p.Metadata = kmsg.StringPtr("ranges=8-9")
	if c, ok, err := ReadCommit(&p); !ok || err != nil || c.Offsets[0] != (OffsetRange{1, 2}) {
		t.Errorf("%+v, %v, %v", c, ok, err)
	}
}

// A base that would not count for the key ranges of the text is not passed over in silence: offsets of other keys would be done.
func TestABaseBesideATextIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"ranges=8-9 keys=0-5":        "KeyAxisBase: it is beside a text",
		"ranges=8-9 keys=0-5 base=4": "KeyAxisBase: it is beside a text",
		"host-7":                     "",
	} {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset, p.Metadata = -1, &text
		must(t, SetKeyAxisBase(&p, 4))
		if _, ok, err := ReadCommit(&p); ok || want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v, want %q", text, ok, err, want)
		}
	}
}

// A base alone says nothing; one that is malformed is an error all the same.
func TestABaseAloneIsNoIndividualCommit(t *testing.T) {
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = 42
	must(t, SetKeyAxisBase(&p, 4))
	if c, ok, err := ReadCommit(&p); ok || err != nil {
		t.Errorf("%+v, %v, %v", c, ok, err)
	}
	p.UnknownTags.Set(TagKeyAxisBase, []byte{4})
	if c, ok, err := ReadCommit(&p); ok || err == nil {
		t.Errorf("%+v, %v, %v", c, ok, err)
	}
}

func TestThePlainOffsetHasToFit(t *testing.T) {
	for _, c := range []struct {
		keys    keyrange.Set
		offsets []OffsetRange
		plain   int64
		want    string // of the error
	}{
		{nil, nil, 7, ""},
		{nil, nil, -1, ""}, // a plain commit of -1 is the broker's affair
		{keyrange.Set{keyrange.Full}, nil, 0, ""},
		{keyrange.Set{keyrange.Full}, nil, -1, "the plain offset is -1, without offset ranges"},
		{nil, []OffsetRange{{1, 2}}, -1, ""},
		{nil, []OffsetRange{{1, 2}}, 3, "the plain offset is 3, with offset ranges"},
		{nil, []OffsetRange{{1, 2}}, -2, "the plain offset is -2, with offset ranges"},
		{keyrange.Set{keyrange.Full}, []OffsetRange{{1, 2}}, 3, "the plain offset is 3, with offset ranges"},
	} {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		must(t, SetKeyRanges(&p, c.keys))
		must(t, SetOffsetRanges(&p, c.offsets))
		p.Offset = c.plain
		_, ok, err := ReadCommit(&p)
		if c.want == "" && (err != nil || ok != (p.UnknownTags.Len() > 0)) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %v at %d: %v, %v, want %q", c.keys, c.offsets, c.plain, ok, err, c.want)
		}
	}
}

func commitsOf(topics ...kmsg.OffsetCommitRequestTopic) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Topics = topics
	return req
}

func topicOf(name string, commits ...Commit) kmsg.OffsetCommitRequestTopic {
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = name
	for i, c := range commits {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(10+i), c.Watermark
		p.UnknownTags.Set(1, nil)
		replace(&p.UnknownTags, TagKeyRanges, encodeKeyRanges(c.Keys)) // as it is, valid or not
		replace(&p.UnknownTags, TagKeyAxisBase, encodeBase(c.Base))
		replace(&p.UnknownTags, TagOffsetRanges, encodeOffsetRanges(c.Offsets))
		topic.Partitions = append(topic.Partitions, p)
	}
	return topic
}

func TestCommitsOfARequestAreFound(t *testing.T) {
	plain, ranges := Commit{Watermark: 5}, Commit{Keys: lowerHalf, Base: 4, Offsets: []OffsetRange{{1, 2}}, Watermark: -1}
	got, err := ReadCommits(commitsOf(topicOf("a", plain, plain), topicOf("b"), topicOf("c", plain, ranges)))
	if err != nil || len(got) != 1 || got[0].Topic != 2 || got[0].Partition != 1 || !sameCommit(got[0].Commit, ranges) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ReadCommits(commitsOf(topicOf("a", plain))); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	txn := kmsg.NewPtrTxnOffsetCommitRequest()
	topic, p := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	must(t, WriteCommit(&p, ranges))
	topic.Partitions = append(topic.Partitions, p)
	txn.Topics = append(txn.Topics, topic)
	if got, err := ReadCommits(txn); err != nil || len(got) != 1 || !sameCommit(got[0].Commit, ranges) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestErrorsOfARequestNameThePlace(t *testing.T) {
	plain, bad := Commit{Watermark: 5}, Commit{Offsets: []OffsetRange{{1, 2}, {2, 3}}, Watermark: -1}
	half := Commit{Offsets: sixtyThousand()[:MaxOffsetRanges/2], Watermark: -1}
	over := Commit{Offsets: sixtyThousand()[:1+MaxOffsetRanges/2], Watermark: -1}
	byID := topicOf("", bad)
	byID.TopicID = [16]byte{1, 2, 3}
	for want, req := range map[string]*kmsg.OffsetCommitRequest{
		`topic "orders", partition 11: OffsetRanges[1]: 2-3 is not after`:                       commitsOf(topicOf("x", plain), topicOf("orders", plain, bad)),
		`topic id AQIDAAAAAAAAAAAAAAAAAA, partition 10: OffsetRanges[1]`:                        commitsOf(byID),
		`topic "y", partition 10: with its 30001 offset ranges the request has more than 60000`: commitsOf(topicOf("x", half), topicOf("y", over)),
		`topic "y", partition 12: with its 1 offset ranges the request has more than 60000`:     commitsOf(topicOf("x", half), topicOf("y", half, plain, Commit{Offsets: []OffsetRange{{1, 1}}, Watermark: -1})),
		`topic "y", partition 10: the plain offset is 5, with offset ranges it has to be -1`:    commitsOf(topicOf("y", Commit{Offsets: []OffsetRange{{1, 1}}, Watermark: 5})),
	} {
		if got, err := ReadCommits(req); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if got, err := ReadCommits(commitsOf(topicOf("x", half, half))); err != nil || len(got) != 2 {
		t.Errorf("60,000 in two partitions: %v", err)
	}
}

// manyKeys are n key ranges.
func manyKeys(n int) (set keyrange.Set) {
	for i := range uint32(n) {
		set = append(set, keyrange.Range{First: 2 * i, Last: 2 * i})
	}
	return set
}

// Key ranges times offset ranges is what a server has to store: few bytes must not say much.
func TestFactsOfARequestAreBounded(t *testing.T) {
	facts := func(keys, offsets int) Commit {
		if offsets == 0 {
			return Commit{Keys: manyKeys(keys), Watermark: 9}
		}
		return Commit{Keys: manyKeys(keys), Offsets: sixtyThousand()[:offsets], Watermark: -1}
	}
	plain := Commit{Watermark: 5}
	for name, c := range map[string]struct {
		req  *kmsg.OffsetCommitRequest
		want string // of the error
	}{
		"one partition":     {commitsOf(topicOf("x", facts(1000, 200))), ""},
		"one more":          {commitsOf(topicOf("x", facts(1000, 200)), topicOf("y", plain, facts(1, 0))), `topic "y", partition 11: with its 1 key ranges of 1 offset ranges each the request says more than 200000 facts`},
		"the most of both":  {commitsOf(topicOf("x", facts(1024, 60_000))), `topic "x", partition 10: with its 1024 key ranges of 60000 offset ranges each`},
		"plain ones":        {commitsOf(topicOf("x", facts(1000, 200), plain, plain)), ""},
		"no key ranges":     {commitsOf(topicOf("x", facts(1000, 199), facts(0, 1000))), ""},
		"one more of these": {commitsOf(topicOf("x", facts(1000, 199), facts(0, 1001))), `partition 11: with its 1 key ranges of 1001`},
		"watermarks":        {commitsOf(topicOf("x", facts(1000, 199), facts(500, 0), facts(500, 0))), ""},
		"one more of those": {commitsOf(topicOf("x", facts(1000, 199), facts(500, 0), facts(501, 0))), `partition 12: with its 501 key ranges of 1`},
	} {
		got, err := ReadCommits(c.req)
		if c.want == "" && (err != nil || len(got) == 0) || c.want != "" && (got != nil || err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %d, %v, want %q", name, len(got), err, c.want)
		}
	}
}
