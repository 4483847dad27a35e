package gateway

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kerr"
)

// facts is what the gateway knows of individual commits: one ledger per group
// and source partition, kept up to date by the fact log. All of it can be
// read again from there.
type facts struct {
	gw     *Gateway
	topic  *upstream.Facts
	log    *icommit.Log
	absent looked // that the log had no topic

	mu      sync.Mutex
	states  map[factKey]*factState
	open    map[openIn][]factKey // what is to be decided
	sources map[string]lookedTopic
}

// factKey names the facts of a partKey, for any incarnation of its topic.
type factKey struct {
	group, topic string
	partition    int32
}

func (k partKey) facts() factKey {
	return factKey{k.group, k.source.Topic, k.source.Partition}
}

// factState holds the facts of a factKey.
type factState struct {
	log int32 // partition of the fact log, -1: not known yet; under facts.mu

	mu     sync.Mutex
	ledger *ledger.Ledger
	open   ledger.Undecided
	others time.Time // when another gateway last added a record
	warned time.Time
	pruned time.Time // see pruneDue
}

// looked is when something was last looked up.
type looked struct {
	mu sync.Mutex
	at time.Time
}

func (l *looked) within(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.at) < d
}

func (l *looked) now() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = time.Now()
}

func (l *looked) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = time.Time{}
}

// absentFor is how long the fact log counts as missing after it was not there.
const absentFor = 5 * time.Second

func newFacts(g *Gateway) *facts {
	f := &facts{gw: g, topic: g.cluster.Facts(), states: make(map[factKey]*factState), open: make(map[openIn][]factKey), sources: make(map[string]lookedTopic)}
	f.log = icommit.New(f.topic, f, icommit.Config{Logger: g.log})
	return f
}

func (f *facts) close() {
	f.log.Close()
	f.topic.Close()
}

// possible reports whether any group may commit individually.
func (f *facts) possible() bool {
	return f.gw.cfg.IndividualCommits && !f.absent.within(absentFor)
}

// catchUp returns when everything that was in the log at the time of the call
// is known here.
func (f *facts) catchUp(ctx context.Context, group string) error {
	if !f.possible() {
		return nil
	}
	err := f.log.CatchUp(ctx, group)
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		// So it is where views came first and nobody wanted more: they must go on. Who commits individually is refused.
		if f.gw.often.now("rights to the fact log", time.Hour) {
			f.gw.log.Warn("no individual commits: the gateway's user has no rights to their topic", "topic", icommit.TopicName, "cure", "give it CREATE, READ, WRITE and DESCRIBE, or set individual.commit.enable: false")
		}
		f.absent.now()
		return nil
	}
	if err != nil {
		return err
	}
	if f.log.Followed() == 0 {
		f.absent.now()
	}
	return nil
}

// state returns the facts of k, nil if there never were any.
func (f *facts) state(k factKey) *factState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.states[k]
}

func (f *facts) ensure(k factKey, log int32) *factState {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.states[k]
	if s == nil {
		s = &factState{log: log, ledger: ledger.New(ledger.Place{Group: k.group, Topic: k.topic, Partition: k.partition})}
		f.states[k] = s
	}
	if log >= 0 {
		s.log = log
	}
	return s
}

// Apply implements icommit.Handler.
func (f *facts) Apply(partition int32, records []factrecord.Record) {
	runs(records, placeOf, func(k factKey, run []factrecord.Record) {
		f.ensure(k, partition).replay(run)
		f.gw.coop.facts(k, run)
	})
}

func placeOf(r *factrecord.Record) factKey { return factKey{r.Group, r.Topic, r.Partition} }

// runs calls do for each run of records with one key.
func runs[R any](records []R, key func(*R) factKey, do func(factKey, []R)) {
	for len(records) > 0 {
		k, n := key(&records[0]), 1
		for n < len(records) && key(&records[n]) == k {
			n++
		}
		do(k, records[:n])
		records = records[n:]
	}
}

// Reset implements icommit.Handler.
func (f *facts) Reset(partition int32) {
	f.gw.coop.reset(partition)
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, s := range f.states {
		if s.log == partition || s.log < 0 {
			delete(f.states, k)
		}
	}
	maps.DeleteFunc(f.open, func(at openIn, _ []factKey) bool { return at.log == partition })
}

func (s *factState) replay(records []factrecord.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open.Passed(records)
	s.take(records)
}

// attach tells a picture of the facts of its source partition.
func (f *facts) attach(p *progress.Picture, k partKey) {
	s := f.state(k.facts())
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Attach(p, k.base, k.source.TopicID, func(of progress.Facts) progress.Facts { return lockedFacts{s, of} })
	p.SetUndecided(lockedUndecided{s, s.open.Over(k.base)})
}

// with is what counts in an era if these facts are added.
func (f *facts) with(k partKey, era int64, added []region.Fact) progress.Facts {
	s := f.state(k.facts())
	if s == nil {
		return region.New(0).With(added)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return lockedFacts{s, s.ledger.With(k.base, k.source.TopicID, era, added)}
}

// lockedFacts are facts of a ledger, which others change meanwhile.
type lockedFacts struct {
	s  *factState
	of progress.Facts
}

func (l lockedFacts) Next(keys keyrange.Range, from int64, empty func(int64) int64) int64 {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.of.Next(keys, from, empty)
}

// errFull says that a partition has as many individual commits as it may.
var errFull = errors.New("too many individual commits above the stable offset")

// admit reports whether facts may be added to those of a partition: not if that
// would make them more than the limit.
func (f *facts) admit(k partKey, era int64, added []region.Fact, stable int64) error {
	s := f.state(k.facts())
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	most := f.gw.cfg.Limits.IndividualRanges
	n := s.ledger.Ranges(era) + s.open.Len()
	if n < most*8/10 {
		return nil
	}
	if time.Since(s.warned) > time.Minute {
		s.warned = time.Now()
		f.gw.log.Warn("a group has many individual commits above its stable offset: a record is not done for long", "group", k.group, "topic", k.source.Topic,
			"partition", k.source.Partition, "stable", stable, "offset_ranges", n, "limit", most, "cure", "look for the consumer that holds the stable offset, or raise limits.individual.commit.max.ranges")
	}
	if n < most || !s.ledger.Grows(k.base, era, added, stable) {
		return nil
	}
	return errFull
}

// storing are facts of one partition that the primary has taken in with a stable
// offset, or none.
type storing struct {
	key    partKey
	era    int64
	added  []region.Fact
	stable int64
	state  *factState
	append *ledger.Append
	err    error
}

// store makes facts of a group durable that the primary has taken in, and lets them
// count. What they make redundant is deleted afterwards. Each has its own result.
func (f *facts) store(ctx context.Context, group string, of []*storing) {
	var puts []factrecord.Record
	for _, x := range of {
		if len(x.added) == 0 && f.state(x.key.facts()) == nil {
			continue
		}
		x.state = f.ensure(x.key.facts(), -1)
		x.state.mu.Lock()
		if x.append, x.err = x.state.ledger.Add(x.key.base, x.key.source.TopicID, x.era, x.added, x.stable); x.append != nil {
			puts = append(puts, x.append.Puts()...)
		}
		x.state.mu.Unlock()
	}
	err := f.log.Append(ctx, group, puts)
	if err == nil && len(puts) > 0 {
		f.absent.forget()
	}
	for _, x := range of {
		if x.append == nil {
			continue
		}
		if err != nil {
			x.state.mu.Lock()
			x.append.Failed()
			x.state.mu.Unlock()
			x.err = err
			continue
		}
		f.stored(group, x.state, x.append)
	}
}

// below deletes what is redundant now that a source row was written that no facts
// came with. Nobody waits for it.
func (f *facts) below(k partKey, plan progress.Plan) {
	if f.state(k.facts()) == nil {
		return
	}
	f.gw.wg.Go(func() {
		ctx, cancel := context.WithTimeout(f.gw.ctx, 30*time.Second)
		defer cancel()
		x := storing{key: k, era: plan.Era, stable: plan.Source.Offset}
		if f.store(ctx, k.group, []*storing{&x}); x.err != nil {
			f.gw.log.Debug("redundant individual commits stay in the log", "group", k.group, "cause", x.err)
		}
	})
}

// stored deletes what is redundant now that an append is durable.
func (f *facts) stored(group string, s *factState, a *ledger.Append) {
	s.mu.Lock()
	deletes := a.Stored()
	s.mu.Unlock()
	if len(deletes) == 0 {
		return
	}
	f.gw.wg.Go(func() {
		ctx, cancel := context.WithTimeout(f.gw.ctx, 30*time.Second)
		defer cancel()
		err := f.log.Append(ctx, group, deletes)
		if err != nil {
			f.gw.log.Debug("redundant individual commits stay in the log", "group", group, "cause", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		a.Deleted(err == nil)
	})
}

// lookedTopic is a source topic as it was seen.
type lookedTopic struct {
	at time.Time
	upstream.Topic
}

// sourceFor is how long a topic counts as it was seen.
const sourceFor = 5 * time.Second

// source finds an ordinary topic, by name.
func (f *facts) source(ctx context.Context, name string) (t upstream.Topic, found bool, err error) {
	f.mu.Lock()
	seen, ok := f.sources[name]
	f.mu.Unlock()
	if ok && time.Since(seen.at) < sourceFor {
		return seen.Topic, true, nil
	}
	topics, err := f.gw.cluster.Topics(ctx, name)
	if err != nil {
		return upstream.Topic{}, false, err
	}
	if t, found = topics[name]; !found || t.Partitions == 0 {
		return t, false, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.sources) > maxParts {
		clear(f.sources)
	}
	f.sources[name] = lookedTopic{time.Now(), t}
	return t, true, nil
}

// seenName is the name of an ordinary topic, as far as it was looked at.
func (f *facts) seenName(r topicRef) string {
	if r.id == ([16]byte{}) {
		return r.name
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, t := range f.sources {
		if t.ID == r.id {
			return name
		}
	}
	return r.name
}

// nameOf is the name of an ordinary topic with this id, "" if there is none.
func (f *facts) nameOf(ctx context.Context, id [16]byte) (string, error) {
	if name := f.seenName(topicRef{id: id}); name != "" {
		return name, nil
	}
	topics, err := f.gw.cluster.TopicsByID(ctx, id)
	if err != nil {
		return "", err
	}
	return topics[id].Name, nil
}

// partOf is the picture for individual commits of a partition of an ordinary
// topic; false where there is no such partition. base is the partition count that
// the client's key ranges are for, 0: the topic's own.
func (c *conn) partOf(ctx context.Context, group, topic string, partition, base int32) (*groupPart, bool, error) {
	t, found, err := c.gw.facts.source(ctx, topic)
	if err != nil || !found || partition < 0 || partition >= t.Partitions {
		return nil, false, err
	}
	if base == 0 {
		base = t.Partitions
	}
	k := partKey{group: group, source: slicecache.Source{Topic: topic, TopicID: t.ID, Partition: partition}, base: base}
	part := c.gw.groups.part(k)
	part.of(c.gw.groups.viewsOf(k))
	return part, true, nil
}
