package gateway

import (
	"context"
	"math/rand/v2"
	"time"
)

// Facts of groups that are gone are deleted: those whose offsets expired, or were
// deleted past the gateway. Each partition of the fact log has its turn once in
// Limits.SweepFacts. One record of each ledger stays for another turn, so
// that no era has its number while something of it may be on its way.

// sweep is what is remembered from turn to turn.
type sweep struct {
	f     *facts
	empty map[factKey]int64 // of which only one record was left, and its era
}

// sweepFacts sweeps until the gateway ends.
func (g *Gateway) sweepFacts() {
	s := sweep{g.facts, make(map[factKey]int64)}
	partitions := int32(50) // as Kafka makes __consumer_offsets
	for turn := rand.Int32N(1 << 20); ; turn++ {
		t := time.NewTimer(g.cfg.Limits.SweepFacts / time.Duration(partitions))
		select {
		case <-g.drainCtx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		partitions = max(1, s.turn(turn))
	}
}

// turn sweeps one partition, and returns how many there are.
func (s *sweep) turn(n int32) (partitions int32) {
	ctx, cancel := context.WithTimeout(s.f.gw.drainCtx, time.Minute)
	defer cancel()
	partitions, err := s.f.log.Partitions(ctx)
	if err != nil || partitions == 0 {
		return 0
	}
	log := n % partitions
	if s.f.gw.inProcess && len(s.f.on(log)) == 0 {
		return partitions // many processes need not all read what none of them uses
	}
	if err := s.f.log.CatchUpOn(ctx, log); err != nil {
		return partitions
	}
	for group, keys := range s.f.on(log) {
		s.group(ctx, group, keys)
	}
	return partitions
}

// on are the states on a partition of the fact log, and what was handed out there, by group.
func (f *facts) on(log int32) map[string][]factKey {
	of := f.gw.coop.on(log)
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, s := range f.states {
		if s.log == log {
			of[k.group] = append(of[k.group], k)
		}
	}
	return of
}

func (s *sweep) group(ctx context.Context, group string, keys []factKey) {
	noted := s.f.forgetting(ctx, group, func(k factKey) bool { return true })
	var topics []string
	for _, k := range keys {
		topics = append(topics, k.topic)
	}
	there, err := s.f.gw.cluster.Committed(ctx, group, topics...)
	if err != nil {
		s.f.gw.log.Debug("whether a group with individual commits is still there is not known", "group", group, "cause", err)
		return
	}
	noted.spare(func(k factKey) bool {
		stays := there.Lookup(k.topic, k.partition) || len(noted.open[k]) > 0 // its first transaction, perhaps
		if stays {
			delete(s.empty, k)
		}
		return stays
	})
	last := &forgetting{f: s.f, group: group, eras: make(map[factKey]int64)}
	for k, era := range noted.eras {
		before, waited := s.empty[k]
		delete(s.empty, k)
		switch {
		case era < 0:
			delete(noted.eras, k)
		case waited && before == era:
			delete(noted.eras, k)
			last.eras[k] = era
		default:
			s.empty[k] = era
		}
	}
	noted.forget(ctx, false)
	last.forget(ctx, true)
}
