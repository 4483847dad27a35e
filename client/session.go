package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/attempts"
	"github.com/tandem-kafka/tandem/client/internal/balancer"
	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/fetcher"
	"github.com/tandem-kafka/tandem/client/internal/run"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// session is a Client at work, from its start to its end.
type session struct {
	id       string // of this process's work, unique
	cfg      *config
	log      *slog.Logger
	handler  Handler         // nil: records are polled
	values   context.Context // what handlers' contexts have
	ctx      context.Context // of the session's goroutines
	cancel   context.CancelFunc
	work     sync.WaitGroup
	fatal    chan error // the first error that ends the session
	up       atomic.Bool
	started  chan struct{} // closed once start was successful
	closing  atomic.Bool
	losses   atomic.Int32               // how often key ranges were lost
	joinedBy atomic.Pointer[kgo.Client] // group, once it is a member

	gw       *gateway.Gateway // nil: there is none in this process
	group    *kgo.Client      // the member's; nil: no member
	lookout  lookout          // of group
	data     [2]*kgo.Client   // for fetches, commits, dead letters and questions
	balancer *balancer.Balancer
	commits  *commits.Commits // nil: nothing is kept
	attempts *attempts.Store  // nil: nothing is kept
	fetcher  *fetcher.Fetcher
	runner   *run.Runner[*kgo.Record]
	features tandemmsg.Features
	coop     *coop         // nil: but for ShareByRecord
	txn      *transactions // nil: but for Transactional

	mu    sync.Mutex
	parts map[executor.TP]*part
}

func newSession(ctx context.Context, cfg *config, handler Handler) *session {
	s := &session{id: rand.Text(), cfg: cfg, log: cfg.log, handler: handler, values: context.WithoutCancel(ctx), fatal: make(chan error, 1), started: make(chan struct{}), parts: map[executor.TP]*part{}}
	s.ctx, s.cancel = context.WithCancel(s.values)
	if cfg.group != "" {
		s.log = s.log.With("group", cfg.group)
	}
	return s
}

// ready reports whether there is something to ask for what it holds.
func (s *session) ready() bool { return s.up.Load() }

// fail ends the session with an error, the first time.
func (s *session) fail(err error) {
	select {
	case s.fatal <- err:
	default:
		s.log.Error("one more error that ends the client", "error", err)
	}
}

// start begins to work. After an error end has to be called, too.
func (s *session) start(ctx context.Context) error {
	opts := append([]kgo.Opt{kgo.HeartbeatInterval(heartbeatInterval), kgo.SessionTimeout(sessionTimeout), kgo.MetadataMaxAge(metadataAge)}, s.cfg.kgo...)
	opts = append(opts, kgo.SeedBrokers(s.cfg.bootstrap...))
	if s.cfg.inProcess != nil {
		gw, reach, err := s.cfg.carry(ctx)
		if err != nil {
			return err
		}
		s.gw = gw
		opts = append(opts, reach...)
	}
	guard := &commits.Guard{}
	for i := range s.data {
		of, err := dataOpts(opts, i == stateClient), error(nil)
		if i == stateClient {
			of, err = guard.Opts(of...)
		}
		if err == nil {
			s.data[i], err = kgo.NewClient(of...)
		}
		if err != nil {
			return fmt.Errorf("client: %w", err)
		}
	}
	var err error
	if s.features, err = s.findFeatures(ctx); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if s.fetcher, err = fetcher.New(fetcher.Config{
		Client: s.data[0], Second: s.data[1], ReadCommitted: s.cfg.isolation == ReadCommitted, Reset: fetcher.Reset(s.cfg.reset),
		MaxBuffered: s.cfg.maxBytes, Member: s.fetchMember, Log: s.log,
	}); err != nil {
		return err
	}
	if s.runner, err = run.Start(s.values, s.runConfig()); err != nil {
		return err
	}
	if s.cfg.group != "" && s.handler != nil {
		s.attempts = attempts.New(s.data[stateClient], s.fetcher, s.cfg.group, s.log)
	}
	if s.cfg.transactional != nil {
		if err := s.startTransactions(ctx, opts); err != nil {
			return err
		}
	}
	if s.cfg.group != "" {
		// Not on the member's own connection: a broker works on one request of a connection at a time, and a commit may wait longer for copies on brokers that
		// are down than the member may be without a heartbeat.
		s.commits = commits.New(s.data[stateClient], guard, s.cfg.group)
	}
	s.up.Store(true)
	s.work.Go(s.fetch)
	s.work.Go(s.nameMissing)
	return s.join(ctx, opts)
}

// The user's options may change them.
const (
	// heartbeatInterval is how often a member asks whether the group changes: whoever waits for what it has waits that long for it to notice.
	heartbeatInterval = 200 * time.Millisecond
	// sessionTimeout is how long the keys of a member wait that died or is frozen. It outlives a gateway or a broker that starts again.
	sessionTimeout = 15 * time.Second
	// metadataAge is how long new partitions of a topic may wait until the group's leader sees them.
	metadataAge = 10 * time.Second
)

// stateClient is the one of session.data that commits and writes attempts; the other writes dead letters.
const stateClient = 1

// dataOpts are the options of a client that is in no group, whatever the user's options say of one.
func dataOpts(opts []kgo.Opt, state bool) []kgo.Opt {
	opts = append(append([]kgo.Opt{}, opts...), kgo.ConsumerGroup(""), kgo.ConsumeTopics(), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0))
	if state {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts
}

// findFeatures asks what the brokers understand.
func (s *session) findFeatures(ctx context.Context) (f tandemmsg.Features, err error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		ask := kmsg.NewPtrApiVersionsRequest()
		ask.ClientSoftwareName, ask.ClientSoftwareVersion = "tandem-client", "1"
		resp, err := ask.RequestWith(ctx, s.data[0])
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			return tandemmsg.ReadFeatures(resp), nil
		}
		if ctx.Err() != nil {
			return f, ctx.Err()
		}
		var ke *kerr.Error
		if errors.As(err, &ke) && !ke.Retriable {
			return f, fmt.Errorf("client: no answer from %s: %w", strings.Join(s.cfg.bootstrap, ","), err)
		}
		s.log.Warn("no broker answers; trying again", "bootstrap", strings.Join(s.cfg.bootstrap, ","), "error", err)
		pause(ctx, wait)
	}
}

// check compares what the user wants with what the brokers understand.
func (s *session) check() error {
	if s.cfg.byRecord {
		return s.checkByRecord()
	}
	if !s.cfg.share && !s.cfg.assignsKeys() {
		return nil
	}
	switch f := s.features; {
	case !f.IndividualCommit && !f.KeyRangeFetch:
		return ErrNoGateway
	case s.cfg.assignsKeys() && (!f.KeyRangeFetch || !f.IndividualCommit && s.cfg.group != ""):
		return errors.New("client: Assign names key ranges, and the gateway has individual.commit.enable or key.range.fetch.enable off")
	case !f.IndividualCommit || !f.KeyRangeFetch:
		s.log.Warn("partitions are not shared: the gateway has individual.commit.enable or key.range.fetch.enable off",
			"individual.commit.enable", f.IndividualCommit, "key.range.fetch.enable", f.KeyRangeFetch)
	}
	return nil
}

func (s *session) checkByRecord() error {
	switch f := s.features; {
	case s.handler == nil:
		return errors.New("client: ShareByRecord needs Run")
	case !f.IndividualCommit && !f.KeyRangeFetch && !f.CooperativeFetch:
		return ErrNoGateway
	case !f.CooperativeFetch:
		return errors.New("client: ShareByRecord: the gateway has cooperative.fetch.enable or individual.commit.enable off, or is too old")
	}
	s.coop = newCoop(s)
	return nil
}

// individual reports whether what is done is committed record by record.
func (s *session) individual() bool { return s.features.IndividualCommit }

func (s *session) executor() executor.Config {
	c := s.cfg.executor()
	c.WatermarkOnly = !s.individual()
	return c
}

func (s *session) runConfig() run.Config[*kgo.Record] {
	c := run.Config[*kgo.Record]{
		Config: s.executor(), Describe: describe, Keep: keep, Handle: s.handle, DeadLetter: s.writeDeadLetter,
		Commit: s.commit, Reread: s.reread, Flow: s.flow, Report: s.report, Stopped: s.stopped,
	}
	if s.handler == nil {
		c.Pull, c.Keep = true, nil // users have the records
		c.Order, c.Last, c.MaxAttempts, c.Lease = executor.Unordered, executor.Stop, 0, 0
	}
	return c
}

// drain is how long who works on records may go on with them. Who polls and closes has ended.
func (s *session) drain() time.Duration {
	if s.handler == nil && s.closing.Load() {
		return 0
	}
	return s.cfg.drain
}

// endMargin is how long the end may take beyond the drain timeout for commits, marks and leaving the group, before all that is left. What can only be cut off then takes
// a moment more: handlers that do not return (1 s), an open transaction (2 s).
const endMargin = 5 * time.Second

// end gives up everything gracefully, and ends all goroutines. When ctx ends before, or nobody answers for the drain timeout and endMargin, what is not done and committed by then is left.
func (s *session) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.drain()+endMargin)
	defer cancel()
	defer context.AfterFunc(ctx, s.cancel)() // what goes on beside: callbacks of the group, and Transact
	if s.coop != nil && s.group != nil && s.runner != nil {
		s.coop.stop()
		if _, err := s.runner.Close(ctx, s.drain()); err != nil && !errors.Is(err, run.ErrClosed) {
			s.log.Warn("records were left in the middle", "error", err)
		}
		s.coop.giveBack(ctx)
	}
	if s.balancer != nil && s.runner != nil {
		s.balancer.GiveUp(ctx)
	}
	if s.group != nil {
		switch err := s.leave(ctx); {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			s.log.Warn("the group could not be left in time: nobody answers; what is not committed is done again by others, once this member's session has ended", "drain_timeout", s.drain(), "beyond", endMargin)
		case err != nil && ctx.Err() == nil:
			s.log.Warn("leaving the group failed", "error", err)
		}
	}
	s.stopResets()
	if s.runner != nil {
		if _, err := s.runner.Close(ctx, s.drain()); err != nil && !errors.Is(err, run.ErrClosed) {
			s.log.Warn("records were left in the middle", "error", err)
		}
		if s.cfg.standalone() {
			s.unmark(ctx, s.cfg.parts())
		}
	}
	s.cancel()
	if s.fetcher != nil {
		s.fetcher.Close()
	}
	s.work.Wait()
	s.closeClients()
	if s.gw != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := s.gw.Shutdown(ctx); err != nil {
			s.log.Warn("the gateway in this process did not end in time", "error", err)
		}
	}
}

// joinMargin is how long leaving may take before the group is told beside kgo.
const joinMargin = 500 * time.Millisecond

// leave leaves the group. kgo does that only when a JoinGroup that is under way is answered, which may be when a dead member's session has ended: so where that
// takes long, and the member has nothing any more that it could work on, the coordinator is told beside that. Kafka then answers the JoinGroup too.
func (s *session) leave(ctx context.Context) error {
	left := make(chan error, 1)
	go func() { left <- s.group.LeaveGroupContext(ctx) }()
	for waits := false; !waits; waits = s.lookout.joining.Load() && s.hasNothing() {
		select {
		case err := <-left:
			return err
		case <-time.After(joinMargin):
		}
	}
	m := s.member()
	if m.ID == "" || m.InstanceID != nil {
		return <-left // who is static stays a member
	}
	req, member := kmsg.NewPtrLeaveGroupRequest(), kmsg.NewLeaveGroupRequestMember()
	member.MemberID, member.Reason = m.ID, kmsg.StringPtr("the client ends while the group rebalances")
	req.Group, req.MemberID, req.Members = s.cfg.group, m.ID, append(req.Members, member)
	if _, err := req.RequestWith(ctx, s.group); err != nil {
		return <-left
	}
	select {
	case err := <-left:
		return err
	case <-time.After(joinMargin):
		return nil
	}
}

// hasNothing reports whether a member that is leaving has nothing any more: it gave it up before it joined again. Who shares by record has given all back by then.
func (s *session) hasNothing() bool {
	if s.balancer == nil {
		return s.coop != nil
	}
	ranges, _ := s.balancer.Ranges()
	return len(ranges) == 0
}

// closeClients closes all clients at once, since each waits up to a second for servers that do not answer.
func (s *session) closeClients() {
	var closing sync.WaitGroup
	if s.txn != nil {
		closing.Go(s.txn.close)
	}
	for _, c := range append(s.data[:], s.group) {
		if c != nil {
			closing.Go(c.Close)
		}
	}
	closing.Wait()
}
