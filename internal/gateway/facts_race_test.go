package gateway

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// writeRow writes a row past the gateway, as another gateway does, or a tool.
func (w *world) writeRow(group, topic string, partition int32, at int64, text string) {
	w.t.Helper()
	offs := make(kadm.Offsets)
	offs.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: text})
	if err := w.direct().CommitAllOffsets(w.t.Context(), group, offs); err != nil {
		w.t.Fatal(err)
	}
}

// until polls for a condition.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("never: %s", what)
		}
	}
}

// Another gateway planned a source row before this one's commit, and its row is the last to arrive. What was committed stays
// committed, for gateways that start only now.
func TestASourceRowFromBeforeArrivesLast(t *testing.T) {
	for name, last := range map[string]tandemmsg.Commit{"facts are deleted": rangesOf(whole, 43, 44), "a fact is not written": watermark(48)} {
		t.Run(name, func(t *testing.T) {
			w := ranged(t, nil)
			topic, group := "orders", "g"
			w.topic(topic, 1)
			w.mustCommit(group, topic, watermark(43))
			w.mustCommit(group, topic, rangesOf(whole, 45, 47))
			w.mustCommit(group, topic, last)
			w.wantStored(group, topic, 0, 48, "tandem:1:0:48")
			w.writeRow(group, topic, 0, 43, "tandem:1:0:43")
			w.another().wantCommitted(group, topic, 48, "")
		})
	}
}

// goneBack is a group on a view that has gone back once, in slice 0, where somebody else commits individually.
func goneBack(t *testing.T) (w *world, group, topic, view string) {
	w = ranged(t, func(c *Config) { c.Limits.RefreshRows = 200 * time.Millisecond })
	topic, group = "orders", "g"
	w.topic(topic, 1)
	w.produce(topic, 100)
	view = w.view(topic, 2)
	w.mustCommit("another group", topic, rangesOf(whole, 1, 2))
	w.commit(group, view, map[int32]int64{0: 80, 1: 80})
	w.commit(group, view, map[int32]int64{0: 60})
	return w, group, topic, view
}

func (w *world) wantStart(group, view string, at int64) {
	w.t.Helper()
	if got := w.starts(group, view)[0]; got != at {
		w.t.Errorf("slice 0 begins at %d, not %d", got, at)
	}
}

// Once a slice was set back, whoever commits individually opens an era. One that does so from rows of before the next commit that goes
// back, through a gateway of which this one has seen nothing, does not have it forgotten.
func TestGoingBackWhileAnotherGatewayOpensAnEra(t *testing.T) {
	w, group, topic, view := goneBack(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.commit(group, view, map[int32]int64{0: 20})
	}()
	w.until("the row goes back", func() bool { at, _ := w.stored(group, view, 0); return at == 20 })
	w.writeRow(group, topic, 0, 60, "tandem:1:1:60")
	<-done
	w.wantStart(group, view, 20)
	if at, text := w.stored(group, topic, 0); at > 21 {
		t.Errorf("the source row is %d %q, above what is to be done again", at, text)
	}
}

// A commit that goes back is not answered as done where nobody can see whether it counts; when it comes again it still goes back.
func TestGoingBackThatCannotBeConfirmed(t *testing.T) {
	w, group, topic, view := goneBack(t)
	goBack := func() error {
		offs := make(kadm.Offsets)
		offs.Add(kadm.Offset{Topic: view, Partition: 0, At: 20, LeaderEpoch: -1})
		res, err := w.admin.CommitOffsets(t.Context(), group, offs)
		if err != nil {
			t.Error(err)
		}
		o, _ := res.Lookup(view, 0)
		return o.Err
	}
	done := make(chan error)
	go func() { done <- goBack() }()
	w.until("the row goes back", func() bool { at, _ := w.stored(group, view, 0); return at == 20 })
	w.writeRow(group, topic, 0, 60, "tandem:1:1:60")
	var broken atomic.Bool
	broken.Store(true)
	w.fake.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if !broken.Load() || len(req.Groups) == 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.ErrorCode = req.Groups[0].Group, kerr.GroupAuthorizationFailed.Code
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	if err := <-done; err == nil {
		t.Error("it is answered as done")
	}
	broken.Store(false)
	if err := goBack(); err != nil {
		t.Error(err)
	}
	w.wantStart(group, view, 20)
}

// A consumer goes back below its own last commit, of an era that is over: it does not matter that it began lower still.
func TestGoingBackBelowACommitOfAnEraThatIsOver(t *testing.T) {
	w := ranged(t, nil)
	topic, group := "orders", "g"
	w.topic(topic, 1)
	w.produce(topic, 100)
	view := w.view(topic, 2)
	w.commit(group, view, map[int32]int64{0: 10, 1: 10})
	if _, err := w.admin.FetchOffsets(t.Context(), group); err != nil { // on the connection that commits
		t.Fatal(err)
	}
	w.commit(group, view, map[int32]int64{0: 80, 1: 80})
	w.writeRow(group, topic, 0, 60, "tandem:1:1:60")
	w.commit(group, view, map[int32]int64{0: 30})
	w.wantStart(group, view, 30)
}

// commitRows is one request, with additions and without.
func (w *world) commitRows(group, topic, member string, generation int32, rows ...kmsg.OffsetCommitRequestTopicPartition) (codes []int16) {
	w.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 9, group, member, generation
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.Partitions = topic, rows
	req.Topics = append(req.Topics, rt)
	for _, p := range w.dial(w.coordinator(group)).ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	return codes
}

func row(partition int32, at int64) kmsg.OffsetCommitRequestTopicPartition {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch = partition, at, -1
	return p
}

func (w *world) rangesRow(partition int32, c tandemmsg.Commit) kmsg.OffsetCommitRequestTopicPartition {
	w.t.Helper()
	p := row(partition, -1)
	if err := tandemmsg.WriteCommit(&p, c); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// A request that commits a partition both ways says two things: the plain offset holds, and the ranges are refused.
func TestRangesBesideAPlainOffsetAreRefused(t *testing.T) {
	w := ranged(t, nil)
	topic, group := w.source(1)
	codes := w.commitRows(group, topic, "", -1, w.rangesRow(0, rangesOf(whole, 20, 29)), row(0, 7))
	if codes[0] != kerr.InvalidRequest.Code || codes[1] != 0 {
		t.Errorf("codes %v", codes)
	}
	w.wantCommitted(group, topic, 7, "")
	if at, text := w.stored(group, topic, 0); at != 7 || text != "" {
		t.Errorf("the row is %d %q", at, text)
	}
}

// The cluster takes the stable offset but refuses what else the gateway adds: the facts would not count, so they are not acknowledged.
func TestFactsWhoseAdditionsAreRefused(t *testing.T) {
	w := ranged(t, nil)
	topic, group := "orders", "g"
	w.topic(topic, 1)
	view := w.view(topic, 2)
	w.mustCommit(group, topic, watermark(5))
	w.writeRow(group, view, 0, 3, "by hand")
	w.fake.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		req := kreq.(*kmsg.OffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, rt := range req.Topics {
			at := kmsg.NewOffsetCommitResponseTopic()
			at.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewOffsetCommitResponseTopicPartition()
				if p.Partition = rp.Partition; rt.Topic == view {
					p.ErrorCode = kerr.TopicAuthorizationFailed.Code
				}
				at.Partitions = append(at.Partitions, p)
			}
			resp.Topics = append(resp.Topics, at)
		}
		return resp, nil, true
	})
	if code := w.commitRanges(group, topic, 0, rangesOf(whole, 20, 29)); code != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("the facts: %v, not the error of the addition", kerr.ErrorForCode(code))
	}
	w.wantFacts(group, "[0-4]")
}

// member joins a group, and leaves it.
func (w *world) member(group, topic string) (id string, generation int32, leave func()) {
	w.t.Helper()
	c, leave := w.joins(group, topic)
	id, generation = c.GroupMetadata()
	return id, generation, leave
}

func (w *world) joins(group, topic string) (c *kgo.Client, leave func()) {
	w.t.Helper()
	c = w.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(100*time.Millisecond))
	w.until("a member joins", func() bool { id, generation := c.GroupMetadata(); return id != "" && generation > 0 })
	return c, func() {
		if err := c.LeaveGroupContext(w.t.Context()); err != nil {
			w.t.Error(err)
		}
	}
}

// holdFacts holds the next append to the fact log until release is closed; held is once it is there.
func (w *world) holdFacts() (held, release chan struct{}) {
	return w.hold(kmsg.Produce, func(kmsg.Request) bool { return true })
}

// hold is holdFacts for the next request of a kind.
func (w *world) hold(key kmsg.Key, is func(kmsg.Request) bool) (held, release chan struct{}) {
	held, release = make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	first.Store(true)
	w.fake.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		if is(req) && first.Swap(false) {
			close(held)
			w.fake.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	return held, release
}

// The first facts of an era are on their way for so long that the group is reset meanwhile, and goes on through another gateway, which cannot know of that
// era. When they arrive they do not count in its own.
func TestFactsThatAreOvertakenByAReset(t *testing.T) {
	w := ranged(t, nil)
	other := w.another()
	topic, group := w.source(1)
	w.mustCommit("another group", topic, rangesOf(whole, 1, 2)) // the log is there
	w.writeRow(group, topic, 0, 10, "")

	held, release := w.holdFacts()
	id, generation, leave := w.member(group, topic)
	answered := make(chan []int16)
	go func() {
		answered <- w.commitRows(group, topic, id, generation, w.rangesRow(0, rangesOf(whole, 20, 29)))
	}()
	<-held
	leave()
	w.writeRow(group, topic, 0, 15, "")
	id, generation, leave = other.member(group, topic)
	if codes := other.commitRows(group, topic, id, generation, w.rangesRow(0, rangesOf(whole, 40, 41))); codes[0] != 0 {
		t.Fatal(kerr.ErrorForCode(codes[0]))
	}
	leave()
	close(release)
	<-answered
	w.another().wantCommitted(group, topic, 15, "[00000000-ffffffff] [40-41]")
}

// Two gateways take facts side by side, of which neither knows the other's. Once the group rests a heartbeat writes the stable offset of both, and
// what that makes redundant leaves the log.
func TestFactsBelowTheStableOffsetOfAGroupAtRest(t *testing.T) {
	w := ranged(t, nil)
	other := w.another()
	topic, group := w.source(1)
	w.mustCommit("another group", topic, rangesOf(whole, 1, 2)) // the log is there
	held, release := w.holdFacts()
	id, generation, _ := w.member(group, topic)
	answered := make(chan []int16)
	go func() { answered <- w.commitRows(group, topic, id, generation, w.rangesRow(0, rangesOf(whole, 5, 9))) }()
	<-held
	if codes := other.commitRows(group, topic, id, generation, w.rangesRow(0, rangesOf(whole, 0, 4))); codes[0] != 0 {
		t.Fatal(kerr.ErrorForCode(codes[0]))
	}
	close(release)
	if codes := <-answered; codes[0] != 0 {
		t.Fatal(kerr.ErrorForCode(codes[0]))
	}
	w.wantFacts(group, "[0-4]", "[5-9]", "[0-9]", "null [5-9]", "null [0-4]")
	w.wantStored(group, topic, 0, 10, "tandem:1:0:10")
}

// What a request commits in several partitions goes to the fact log together.
func TestPartitionsAreAppendedTogether(t *testing.T) {
	w := ranged(t, nil)
	topic, group := w.source(4)
	w.mustCommit(group, topic, watermark(5))
	var appends atomic.Int32
	w.fake.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		if req := kreq.(*kmsg.ProduceRequest); len(req.Topics) == 1 && (req.Topics[0].Topic == icommit.TopicName || req.Topics[0].Topic == "") {
			appends.Add(1)
		}
		return nil, nil, false
	})
	var rows []kmsg.OffsetCommitRequestTopicPartition
	for p := range int32(4) {
		rows = append(rows, w.rangesRow(p, rangesOf(whole, 20, 29)))
	}
	for _, code := range w.commitRows(group, topic, "", -1, rows...) {
		if code != 0 {
			t.Fatal(kerr.ErrorForCode(code))
		}
	}
	if n := appends.Load(); n < 1 || n >= 4 { // the producer may send the first record while it is given the others
		t.Errorf("there are %d requests for 4 partitions", n)
	}
}

// While the facts of a plan are on their way somebody may reset the group, and this gateway may read that: the plan's source row is not to
// take its place.
func TestPlansStayOutOfPicturesThatWereReadSince(t *testing.T) {
	source := func(at int64, text string) *progress.Picture {
		p := progress.NewPicture(nil)
		p.SetSource(progress.Row{Offset: at, LeaderEpoch: -1, Metadata: &text})
		return p
	}
	part := &groupPart{picture: source(7, ""), reads: 2}
	p := &partPlan{part: part, reads: 1, plan: source(20, "tandem:1:0:20").Plan(nil, progress.Env{})}
	p.applied()
	if part.picture != nil {
		t.Errorf("it is not read again: %+v", part.picture)
	}
	part.picture = source(15, "tandem:1:0:15") // by another commit beside it
	p.applied()
	if at, _ := part.picture.Source(); at != 20 {
		t.Errorf("of the same era the source row is %d", at)
	}
	part.picture, p.reads = source(7, ""), 2
	p.applied()
	if at, ours := part.picture.Source(); at != 20 || !ours {
		t.Errorf("of the same reading it is %d, ours %v", at, ours)
	}
}
