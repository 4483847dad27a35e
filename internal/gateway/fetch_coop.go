package gateway

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file answers cooperative fetches (package tandemmsg), in Fetch v12 to the
// highest: those with a GroupId. The member is given offsets that nobody else works on
// (coop_place.go), and whole batches as they were produced. It needs the
// right to READ the topics, and to be a member of the group, which the
// coordinator is asked.

// namesGroup reports whether a Fetch is a cooperative one.
func namesGroup(req *kmsg.FetchRequest) bool {
	if req.Version < 12 || req.UnknownTags.Len() == 0 {
		return false
	}
	_, ok, _ := tandemmsg.ReadCooperative(req)
	return ok
}

func (c *conn) handleCooperative(ctx context.Context, req *kmsg.FetchRequest) (kmsg.Response, error) {
	refused := func(code int16) (kmsg.Response, error) {
		resp := kmsg.NewPtrFetchResponse()
		resp.ErrorCode = code
		return resp, nil
	}
	ask, _, err := tandemmsg.ReadCooperative(req)
	switch {
	case err != nil || !c.gw.cfg.IndividualCommits:
		if c.gw.often.now("cooperative fetch", time.Minute) {
			c.log.Warn("a cooperative fetch was refused", "cause", cmp.Or(err, errors.New("individual.commit.enable is off")))
		}
		return refused(kerr.InvalidRequest.Code)
	case req.SessionEpoch > 0:
		return refused(kerr.FetchSessionIDNotFound.Code)
	}
	began := time.Now()
	code, first, members, err := c.checkMember(ctx, ask)
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return refused(code)
	}
	if first && members == nil {
		if members, err = c.membersOf(ctx, ask.Group); err != nil {
			return nil, err
		}
	}
	m := c.gw.coop.memory
	w := newWaiter(c, ask, began, req.IsolationLevel == 1, req.MaxBytes, m.answerMost())
	parts, err := c.coopParts(ctx, req, ask)
	if err != nil {
		return nil, err
	}
	release := func() {
		for _, p := range parts {
			m.unpin(p.pins)
			p.pins, p.batches = nil, nil
		}
	}
	defer func() { // its connection may have ended
		w.end()
		release()
	}()
	waits := ask.MaxRecords != 0 && ask.SessionTimeout > 0
	for _, p := range parts {
		if p.code == 0 {
			if p.code, err = p.place.enter(ctx, w, p, first, members); err != nil {
				return nil, err
			}
		}
		if p.code == 0 && ask.SessionTimeout == 0 {
			p.code = p.place.giveBack(ctx, ask.Member, c)
		}
		waits = waits && p.code == 0 // as a broker: an error is answered at once
	}
	if waits {
		for _, p := range parts {
			p.place.add(w, p)
		}
		longest := min(longestPoll, time.Duration(ask.SessionTimeout)*time.Millisecond/4)
		polling, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(c.gw.drainCtx, cancel)
		unwatch := c.watch(w.leave)
		w.wait(polling, time.Now().Add(min(time.Duration(max(req.MaxWaitMillis, 0))*time.Millisecond, longest)))
		unwatch()
		stop()
		cancel()
	}
	if w.left() {
		w.takeBack(parts)
	}
	err = c.writeCooperative(req, parts, release)
	if err != nil {
		w.takeBack(parts)
	}
	return nil, err
}

// coopParts finds the partitions of a cooperative fetch.
func (c *conn) coopParts(ctx context.Context, req *kmsg.FetchRequest, ask tandemmsg.Cooperative) ([]*coopPart, error) {
	var parts []*coopPart
	seen := make(map[factKey]bool)
	for ti := range req.Topics {
		t := &req.Topics[ti]
		var name string
		var source slicecache.Source
		var partitions int32
		code := kerr.InvalidRequest.Code
		var err error
		if c.gw.views.Topic(t.Topic, t.TopicID) == nil {
			if name, source, partitions, code, err = c.keySource(t, c.gw.cfg.cooperativeFetch); err != nil {
				return nil, err
			}
		}
		if code == 0 {
			c.gw.isolations.note(c.isolationKey(name), req.IsolationLevel == 1)
		}
		for pi := range t.Partitions {
			rp := &t.Partitions[pi]
			p := &coopPart{topic: ti, partition: pi, code: code, offset: rp.FetchOffset, highWatermark: -1, lastStable: -1, logStart: -1}
			parts = append(parts, p)
			if code != 0 {
				continue
			}
			k := factKey{ask.Group, name, rp.Partition}
			keys := keysOf(req, rp)
			has, err := tandemmsg.AcquiredRanges(rp)
			for _, r := range has {
				p.has = append(p.has, acquire.Range{First: r.First, Last: r.Last})
			}
			switch {
			case err != nil || keys.err != nil || len(keys.keys) > 0 || seen[k]:
				p.code = kerr.InvalidRequest.Code
			case rp.Partition < 0 || rp.Partition >= partitions:
				p.code = kerr.UnknownTopicOrPartition.Code
			default:
				seen[k] = true
				var found bool
				if p.part, found, err = c.partOf(ctx, ask.Group, name, rp.Partition, 0); err != nil || !found {
					p.code = kerr.LeaderNotAvailable.Code
				}
				p.place = c.gw.coop.place(k, -1)
				source.Partition = rp.Partition
				p.place.of(source)
			}
		}
	}
	return parts, nil
}

// enter takes note of a member's fetch: that it is there, what it has, and who is in the group. first says that the connection did not know of the member in
// this generation. code says why it cannot be served.
func (p *place) enter(ctx context.Context, w *waiter, part *coopPart, first bool, members map[string]int32) (code int16, err error) {
	p.mu.Lock()
	p.isAt(w)
	if first && !p.goesOn(members) { // what was done may not be so any more
		p.state.Anew()
		p.generation = -1
	}
	if members != nil {
		p.members, p.asked = members, w.began
	}
	p.supersede(w)
	settled := w.ask.Generation <= p.generation && !p.state.Doubtful() && !p.has(w, part)
	p.mu.Unlock()
	if !settled {
		err := p.settle(ctx, w, part)
		if w.c.ctx.Err() != nil {
			return 0, errDone
		}
		if err != nil {
			p.coop.gw.unreadable(p.key.group, err)
			var ke *kerr.Error
			if errors.As(err, &ke) {
				return ke.Code, nil
			}
			return kerr.CoordinatorLoadInProgress.Code, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation = max(p.generation, w.ask.Generation)
	if members != nil && w.ask.Generation == p.generation {
		p.state.Members(func(member string) bool { _, is := members[member]; return is })
	}
	now := nowMs()
	if p.has(w, part) {
		p.left = now
		p.start()
	}
	if w.ask.SessionTimeout > 0 && p.state.Renewal(w.ask.Member, w.ask.SessionTimeout, p.announced[w.ask.Member], now) {
		p.outbox = append(p.outbox, p.state.Session(p.coop.id(), w.ask.Member, w.ask.SessionTimeout))
		if len(p.announced) > maxSlices {
			clear(p.announced)
		}
		p.announced[w.ask.Member] = now
		p.start()
	}
	return 0, nil
}

// has takes note of what the member of a fetch says that it has, unless that gives all of it back: what else it was given counts as never given. It reports whether there is any. p.mu is held.
func (p *place) has(w *waiter, part *coopPart) (lost bool) {
	return w.ask.SessionTimeout > 0 && p.state.Has(w.ask.Member, part.has, nowMs())
}

// goesOn reports whether a group has had members all the time since the place last heard of some. Else it may have been reset, or deleted and made anew, which Kafka allows only
// without members. p.mu is held.
func (p *place) goesOn(members map[string]int32) bool {
	for m := range members {
		if _, was := p.members[m]; was {
			return true
		}
	}
	return false
}

// writeCooperative sends the answer, and may let go of what it refers to before that is over.
func (c *conn) writeCooperative(req *kmsg.FetchRequest, parts []*coopPart, release func()) error {
	w := &fetchWriter{version: req.Version, flexible: true, buf: make([]byte, 0, 1024)}
	w.buf = append(w.buf, 0, 0, 0, 0)
	w.buf = kbin.AppendInt32(w.buf, c.answering)
	w.tags()
	w.buf = kbin.AppendInt32(w.buf, 0)
	w.buf = kbin.AppendInt16(w.buf, 0)
	w.buf = kbin.AppendInt32(w.buf, 0)
	w.arrayLen(len(req.Topics))
	for ti := range req.Topics {
		t := &req.Topics[ti]
		w.topic(t.Topic, t.TopicID, len(t.Partitions))
		for ; len(parts) > 0 && parts[0].topic == ti; parts = parts[1:] {
			p := parts[0]
			w.head(partHead{
				partition: t.Partitions[p.partition].Partition, code: p.code, highWatermark: p.highWatermark, lastStable: p.lastStable, logStart: p.logStart, preferred: -1,
				abortedNull: req.IsolationLevel == 0,
			})
			w.records(p.content(c.gw.coop.memory))
			w.acquired(p.acquired)
		}
		w.tags()
	}
	w.tags()
	w.flush()
	head := w.bufs[0]
	binary.BigEndian.PutUint32(head, uint32(w.size-4))
	return c.writeHeld(w.bufs, w.size, c.gw.coop.memory, release)
}

// acquired is the tags of a partition: AcquiredRanges, if there are any.
func (w *fetchWriter) acquired(ranges []tandemmsg.AcquiredRange) {
	var p kmsg.FetchResponseTopicPartition
	if len(ranges) == 0 || tandemmsg.SetAcquiredRanges(&p, ranges) != nil {
		w.tags()
		return
	}
	w.buf = kbin.AppendUvarint(w.buf, uint32(p.UnknownTags.Len()))
	w.buf = p.UnknownTags.AppendEach(w.buf)
}
