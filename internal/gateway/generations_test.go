package gateway

import (
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A member that fetches key ranges in a generation that is over is told so, once somebody has committed in the next; who does not say who it is, is not.
func TestFetchInAGenerationThatIsOver(t *testing.T) {
	w := ranged(t, nil)
	topic, group := w.source(1)
	w.produce(topic, 20)
	join := func(after int32) (c *kgo.Client, m tandemmsg.Member) {
		c = w.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(20*time.Millisecond))
		m.Group = group
		for deadline := time.Now().Add(20 * time.Second); m.ID == "" || m.Generation <= after; time.Sleep(10 * time.Millisecond) {
			if m.ID, m.Generation = c.GroupMetadata(); time.Now().After(deadline) {
				t.Fatal("the member does not join")
			}
		}
		return c, m
	}
	commit := func(m tandemmsg.Member, offset int64) int16 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation, req.MemberID = m.Group, m.Generation, m.ID
		rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
		rt.Topic = topic
		if err := tandemmsg.WriteCommit(&rp, rangesOf(whole, offset, offset)); err != nil {
			t.Fatal(err)
		}
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		return w.sendCommit(req)
	}
	fetch := func(change func(*kmsg.FetchRequest)) (code int16, records int) {
		p, offsets, _ := w.fetchKeysAs(change, topic, 0, whole, 0)
		return p.ErrorCode, len(offsets)
	}
	as := func(m tandemmsg.Member) func(*kmsg.FetchRequest) {
		return func(req *kmsg.FetchRequest) {
			if err := tandemmsg.SetFetchMember(req, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, first := join(-1)
	if code := commit(first, 5); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	if code, n := fetch(as(first)); code != 0 || n != 20 {
		t.Errorf("a member: code %d, %d records", code, n)
	}
	_, second := join(first.Generation)
	if code, n := fetch(as(first)); code != 0 || n != 20 { // nobody has committed since
		t.Errorf("before a commit: code %d, %d records", code, n)
	}
	for deadline := time.Now().Add(20 * time.Second); commit(second, 7) != 0; time.Sleep(20 * time.Millisecond) { // the group comes to rest
		if time.Now().After(deadline) {
			t.Fatal("the second member cannot commit")
		}
	}
	if code, n := fetch(as(first)); code != kerr.IllegalGeneration.Code || n != 0 {
		t.Errorf("a member of the generation before: code %d, %d records", code, n)
	}
	if code := commit(first, 9); code != kerr.IllegalGeneration.Code {
		t.Errorf("its commit: code %d", code)
	}
	for what, change := range map[string]func(*kmsg.FetchRequest){"the present generation": as(second), "nobody": func(*kmsg.FetchRequest) {},
		"another group": as(tandemmsg.Member{Group: "other", ID: "a", Generation: 0})} {
		if code, n := fetch(change); code != 0 || n != 20 {
			t.Errorf("%s: code %d, %d records", what, code, n)
		}
	}
	if code, _ := fetch(func(req *kmsg.FetchRequest) { req.UnknownTags.Set(tandemmsg.TagMember, []byte{2, 'g'}) }); code != kerr.InvalidRequest.Code {
		t.Errorf("a part of a member: code %d", code)
	}
}

func TestGenerationsAreForgotten(t *testing.T) {
	var g generations
	g.note("g", 7)
	g.note("g", 6) // its answer was slow
	if !g.over("g", 6) || g.over("g", 7) || g.over("g", 8) || g.over("other", 1) {
		t.Error("what is over is not what it should be")
	}
	g.forget("g")
	if g.over("g", 6) {
		t.Error("a deleted group is remembered")
	}
	g.latest["g"] = acceptedIn{7, time.Now().Add(-generationFor)}
	if g.over("g", 1) {
		t.Error("an old commit counts for ever")
	}
	if g.note("g", 2); !g.over("g", 1) || g.over("g", 2) {
		t.Error("a group that counts anew is not followed")
	}
}
