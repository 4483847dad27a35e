package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// deck returns what disturbs the scene in a round: first one of each of the main kinds, in a random order, then any.
func (s *scene) deck() func(round int) {
	if s.calm {
		return func(round int) { []func(){s.killMember, s.join, s.leave}[round%3]() }
	}
	gateway := s.killGateway
	if len(s.gates) == 0 {
		gateway = s.killMember
	}
	first := []func(){gateway, s.killMember, s.freezeMember, s.killBroker}
	s.random.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	more := []func(){gateway, gateway, gateway, s.killMember, s.killMember, s.freezeMember, s.killBroker, s.join, s.leave}
	if s.program != nil && s.program.worker {
		more = append(more, s.moveLeaders, s.moveLeaders)
	}
	return func(round int) {
		if round < len(first) {
			first[round]()
			return
		}
		more[s.random.IntN(len(more))]()
	}
}

// killGateway kills a gateway and starts it again, at once or 1-5 s later, on the same ports. In the meantime a member may die.
func (s *scene) killGateway() {
	s.Helper()
	i := s.random.IntN(len(s.gates))
	for s.gone[i] {
		i = (i + 1) % len(s.gates)
	}
	pause := time.Duration(0)
	if s.random.IntN(2) == 0 {
		pause = time.Second + time.Duration(s.random.IntN(4000))*time.Millisecond
	}
	member := pause > 0 && s.random.IntN(3) == 0
	s.say("kill gateway %d for %v", i+1, pause)
	back := begins(s.gates[i].Bootstrap)
	s.gates[i].Kill()
	if member {
		s.killMember()
	}
	s.pass(pause)
	s.gates[i].Start(s)
	back()
}

// loseGateway kills one of two gateways for good. Members that know both go on; the others are replaced.
func (s *scene) loseGateway() {
	s.Helper()
	i := s.random.IntN(len(s.gates))
	s.say("kill gateway %d for good", i+1)
	begins(s.gates[i].Bootstrap)
	s.gates[i].Kill()
	s.gone[i] = true
	for j := len(s.members) - 1; j >= 0; j-- {
		if s.members[j].bootstrap == s.gates[i].Bootstrap {
			s.kill(j)
			s.add()
		}
	}
	s.complete()
}

// killMember kills a member and starts another one.
func (s *scene) killMember() {
	s.Helper()
	i := s.random.IntN(len(s.members))
	s.say("kill %s (%d)", s.members[i].kind, s.members[i].Pid())
	s.kill(i)
	s.add()
}

// kill kills a member.
func (s *scene) kill(i int) {
	s.Helper()
	m := s.members[i]
	m.killed = time.Now()
	m.Kill()
	s.drop(i)
}

// freezeMember stops a member until its group has dropped it, and lets it go on then, with what it had fetched.
func (s *scene) freezeMember() {
	s.Helper()
	if s.program != nil && s.program.consumerGroup {
		s.killMember() // the group's members are not told apart by the number of them, which is known late
		return
	}
	release := s.holdBrokers() // a coordinator that takes over would still have the member, if the group has not come together without it
	defer release()
	s.complete()
	m := s.members[s.random.IntN(len(s.members))]
	s.say("freeze %s (%d)", m.kind, m.Pid())
	m.Pause()
	s.await(patience, func() string { return stopped(m.Pid()) })
	f := freeze{from: time.Now()}
	s.await(patience, func() string {
		if got, _ := s.groupNow(); len(got) != len(s.members)-1 {
			return fmt.Sprintf("the group has the members %v, one of %d is frozen", got, len(s.members))
		}
		return ""
	})
	f.to = time.Now()
	m.freezes = append(m.freezes, f)
	m.Continue()
	s.say("thaw %s (%d)", m.kind, m.Pid())
	s.complete()
}

// killBroker kills a broker and starts it again up to 3 s later; the group does not wait until it is up. All partitions have all their
// copies before, so that none is lost.
func (s *scene) killBroker() {
	s.Helper()
	release := s.holdBrokers()
	s.await(patience, s.copies)
	node := 1 + s.random.IntN(3)
	pause := time.Duration(s.random.IntN(3000)) * time.Millisecond
	member := s.random.IntN(3) == 0
	s.say("kill broker %d for %v", node, pause)
	back := begins("")
	s.kafka.Kill(s, node)
	if member {
		s.killMember()
	}
	s.pass(pause)
	up := make(chan struct{})
	s.resuming = up
	go func() {
		defer close(up)
		defer release()
		s.kafka.Resume(s, node)
		back()
	}()
}

// brokers is held by the scene that has a broker down, or wants all of them up: scenes run side by side on one cluster.
var brokers = make(chan struct{}, 1)

// holdBrokers waits until all brokers are up, and keeps other scenes from killing one until release is called, or the test ends.
func (s *scene) holdBrokers() (release func()) {
	s.Helper()
	<-s.resuming
	s.await(3*patience, func() string {
		select {
		case brokers <- struct{}{}:
			return ""
		default:
			return "another scene needs the brokers"
		}
	})
	release = sync.OnceFunc(func() { <-brokers })
	s.Cleanup(release)
	return release
}

// join lets a member join, unless there are many.
func (s *scene) join() {
	s.Helper()
	if len(s.members) >= s.setting.members+2 {
		s.leave()
		return
	}
	s.add()
	s.complete()
}

// swift counts the members that are not slow.
func (s *scene) swift() (n int) {
	for _, m := range s.members {
		if !m.slow {
			n++
		}
	}
	return n
}

// leave lets a member leave in order, unless there are few.
func (s *scene) leave() {
	s.Helper()
	if len(s.members) <= 2 {
		s.join()
		return
	}
	i := s.random.IntN(len(s.members))
	for !s.members[i].slow && s.swift() <= 2 {
		i = (i + 1) % len(s.members)
	}
	m := s.members[i]
	s.say("%s (%d) leaves", m.kind, m.Pid())
	s.dismiss(i)
}

// dismiss has a member leave in order.
func (s *scene) dismiss(i int) {
	s.Helper()
	m := s.members[i]
	m.left = time.Now()
	if err := m.Term(30 * time.Second); err != nil {
		s.Errorf("%s (%d) after SIGTERM: %v", m.kind, m.Pid(), err)
	}
	s.drop(i)
}

// complete waits until the group has exactly the scene's members.
func (s *scene) complete() {
	s.Helper()
	if s.program != nil && s.program.consumerGroup {
		return
	}
	s.await(patience, func() string {
		var want []string
		for _, m := range s.members {
			want = append(want, m.id)
		}
		slices.Sort(want)
		if got, state := s.groupNow(); state != "Stable" || len(got) != len(want) || s.program == nil && !slices.Equal(got, want) {
			return fmt.Sprintf("the group is %s with the members %v, wanted are %v", state, got, want)
		}
		return ""
	})
}

// groupNow asks the cluster for the client ids of the group's members, in order, and its state.
func (s *scene) groupNow() (members []string, state string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	groups, err := s.admin.DescribeGroups(ctx, s.group)
	if err != nil || groups[s.group].Err != nil {
		return nil, "unknown"
	}
	for _, m := range groups[s.group].Members {
		members = append(members, m.ClientID)
	}
	slices.Sort(members)
	return members, groups[s.group].State
}

// copies says which partitions lack copies.
func (s *scene) copies() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	topics, err := s.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return err.Error()
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				return fmt.Sprintf("%s/%d has leader %d and copies %v of %v", t.Topic, p.Partition, p.Leader, slices.Sorted(slices.Values(p.ISR)), p.Replicas)
			}
		}
	}
	return ""
}
