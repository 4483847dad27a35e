package cases

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file makes members of classic groups on the wire. The leader gives member i of n its place, "i/n", as user data of an assignment.

// place is which of how many members of the generation this one is.
type place struct{ i, n int }

// keys is the member's part of the key axis.
func (p place) keys() keyrange.Set {
	length := uint64(1<<32) / uint64(p.n)
	last := length*uint64(p.i+1) - 1
	if p.i == p.n-1 {
		last = 1<<32 - 1
	}
	return keyrange.Set{{First: uint32(length * uint64(p.i)), Last: uint32(last)}}
}

// joinAll lets members join one group, until one generation has all of them.
func joinAll(topic string, members ...*wire) []place {
	places := make([]place, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { places[i] = m.join(topic, len(members)) })
	}
	wg.Wait()
	return places
}

// join joins the group, again and again until it has so many members.
func (w *wire) join(topic string, members int) place {
	within := harness.Until(30 * time.Second)
	var last error
	for within() {
		p, err := w.joinOnce(topic)
		for err == nil && p.n != members && within() { // the others come
			time.Sleep(20 * time.Millisecond)
			err = w.heartbeat()
		}
		if err == nil && p.n == members {
			return p
		}
		if last = err; errors.Is(err, kerr.UnknownMemberID) {
			w.member = ""
		}
	}
	w.t.Errorf("the group does not get %d members: %v", members, last)
	return place{0, 1}
}

func (w *wire) joinOnce(topic string) (place, error) {
	ctx := harness.Context(w.t, 20*time.Second)
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = []string{topic}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = w.group, w.member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = w.session, 10_000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "places", subscription.AppendTo(nil)
	req.Protocols = append(req.Protocols, protocol)
	joined, err := req.RequestWith(ctx, w.c)
	if err != nil {
		return place{}, err
	}
	w.member = joined.MemberID
	if err := kerr.ErrorForCode(joined.ErrorCode); err != nil {
		return place{}, err
	}
	w.generation = joined.Generation
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID = w.group, w.generation, w.member
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), joined.Protocol
	if joined.LeaderID == joined.MemberID {
		var ids []string
		for _, m := range joined.Members {
			ids = append(ids, m.MemberID)
		}
		slices.Sort(ids)
		for i, id := range ids {
			assignment := kmsg.NewConsumerMemberAssignment()
			assignment.UserData = fmt.Appendf(nil, "%d/%d", i, len(ids))
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = id, assignment.AppendTo(nil)
			sync.GroupAssignment = append(sync.GroupAssignment, a)
		}
	}
	synced, err := sync.RequestWith(ctx, w.c)
	if err == nil {
		err = kerr.ErrorForCode(synced.ErrorCode)
	}
	if err != nil {
		return place{}, err
	}
	var mine kmsg.ConsumerMemberAssignment
	if err := mine.ReadFrom(synced.MemberAssignment); err != nil {
		return place{}, err
	}
	i, n, _ := strings.Cut(string(mine.UserData), "/")
	var p place
	if p.i, err = strconv.Atoi(i); err == nil {
		p.n, err = strconv.Atoi(n)
	}
	return p, err
}

// consumeAll has members of a group of the consumer protocol join, or go on, until all are in one epoch and have what is theirs.
func consumeAll(topic string, members ...*wire) {
	for _, m := range members {
		if m.member == "" {
			m.member, m.generation = harness.Name(m.t, "member"), 0 // its next heartbeat joins
		}
	}
	harness.Eventually(members[0].t, 20*time.Second, func() error {
		epochs := map[int32]bool{}
		var described int32
		for _, m := range members {
			if err := m.beat(topic, m.generation); err != nil {
				return err
			}
			epochs[m.generation], described = true, m.groupEpoch()
		}
		if len(epochs) > 1 || !epochs[described] {
			return fmt.Errorf("members are in epochs %v, the group in %d", epochs, described)
		}
		return nil
	})
}

// beat sends a ConsumerGroupHeartbeat: epoch 0 joins, -1 leaves.
func (w *wire) beat(topic string, epoch int32) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = w.group, w.member, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames, req.Topics = 10_000, []string{topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	resp, err := req.RequestWith(harness.Context(w.t, 10*time.Second), w.c)
	if err != nil {
		return err
	}
	if resp.ErrorCode == 0 && epoch >= 0 {
		w.member, w.generation = *resp.MemberID, resp.MemberEpoch
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// groupEpoch is the epoch of a group of the consumer protocol.
func (w *wire) groupEpoch() int32 {
	w.t.Helper()
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{w.group}
	resp, err := req.RequestWith(harness.Context(w.t, 10*time.Second), w.c)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.Groups[0].Epoch
}

func (w *wire) heartbeat() error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID = w.group, w.generation, w.member
	resp, err := req.RequestWith(harness.Context(w.t, 10*time.Second), w.c)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

func (w *wire) leave() {
	w.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = w.member
	req.Group, req.MemberID, req.Members = w.group, w.member, append(req.Members, m)
	resp, err := req.RequestWith(harness.Context(w.t, 10*time.Second), w.c)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		w.t.Errorf("leave %s: %v", w.group, err)
	}
}
