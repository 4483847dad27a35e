package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

type outcome uint8

const (
	onStop outcome = iota
	onDeadLetter
	onSkip
)

// config is what a Client was told.
type config struct {
	bootstrap   []string
	group       string
	topics      []string
	assign      Ranges
	share       bool
	byRecord    bool
	session     time.Duration
	cooperative bool
	inProcess   *inProcess

	transactional *string // nil: no transactions

	concurrency int
	order       Ordering
	backoff     Backoff
	attempts    int // -1: not said
	outcome     outcome
	outcomes    int // how often it was said
	deadLetter  string

	maxRanges             int
	commitInterval        time.Duration
	lease, drain          time.Duration
	maxRecords            int
	maxBytes              int64
	onAssigned, onRevoked func(context.Context, Ranges)
	onLost                func(context.Context, Ranges)
	isolation             IsolationLevel
	reset                 Reset
	log                   *slog.Logger
	hook                  Hook
	kgo                   []kgo.Opt
}

// maxShed is how many records may be left to be read again while their keys are blocked.
const maxShed = 1_000_000

func newConfig(opts []Option) (*config, error) {
	c := &config{
		concurrency: 16, attempts: -1, maxRanges: 1000, commitInterval: unsaid, lease: time.Minute, session: 30 * time.Second, drain: 10 * time.Second,
		maxRecords: 16384, maxBytes: 64 << 20, log: slog.Default(),
	}
	for _, o := range opts {
		o(c)
	}
	if c.attempts == -1 {
		c.attempts = 0
		if c.outcomes > 0 {
			c.attempts = 10
		}
	}
	if c.transactional != nil {
		c.isolation = ReadCommitted
	}
	if c.commitInterval == unsaid {
		if c.commitInterval = 200 * time.Millisecond; c.transactional != nil {
			c.commitInterval = 100 * time.Millisecond
		}
	}
	if c.log == nil {
		c.log = slog.Default()
	}
	return c, c.validate()
}

// unsaid is the commit interval where the user has said none.
const unsaid = time.Duration(math.MinInt64)

func (c *config) standalone() bool { return c.assign != nil }

func (c *config) validate() error {
	switch {
	case len(c.bootstrap) == 0:
		return errors.New("client: no addresses to begin with: add client.Bootstrap")
	case c.standalone() && len(c.topics) > 0:
		return errors.New("client: Assign and Topics exclude each other: Assign names its topics")
	case c.standalone() && (c.share || c.cooperative):
		return errors.New("client: Assign excludes ShareByKey and Cooperative, which are about a group's members")
	case c.byRecord && (c.share || c.cooperative || c.standalone()):
		return errors.New("client: ShareByRecord excludes ShareByKey, Cooperative and Assign")
	case c.byRecord && c.order != NoOrder:
		return errors.New("client: ShareByRecord is for work without order: leave Order out")
	case c.byRecord && c.reset == NoReset:
		return errors.New("client: ShareByRecord needs ResetOffset(Earliest) or ResetOffset(Latest)")
	case c.session < time.Second || c.session.Milliseconds() > tandemmsg.MaxSessionTimeout:
		return fmt.Errorf("client: SessionTimeout(%v): 1 s to 1 h", c.session)
	case !c.standalone() && c.group == "":
		return errors.New("client: no group: add client.Group, or client.Assign")
	case !c.standalone() && len(c.topics) == 0:
		return errors.New("client: no topics: add client.Topics, or client.Assign")
	case c.transactional != nil && (*c.transactional == "" || c.group == ""):
		return fmt.Errorf("client: Transactional(%q) needs an id, and a group whose offsets are part of its transactions", *c.transactional)
	case c.concurrency < 1:
		return fmt.Errorf("client: Concurrency(%d): at least 1", c.concurrency)
	case c.order > NoOrder:
		return fmt.Errorf("client: unknown order %d", c.order)
	case c.attempts < 0:
		return fmt.Errorf("client: Retry with %d attempts: 0 for no limit, or more", c.attempts)
	case c.backoff.First < 0 || c.backoff.Max < 0 || c.backoff.Max > 0 && c.backoff.Max < c.backoff.First:
		return errors.New("client: Backoff: First and Max must not be below 0, nor Max below First")
	case c.backoff.Jitter < 0 || c.backoff.Jitter > 100:
		return fmt.Errorf("client: Backoff: a jitter of %d percent: 0 to 100", c.backoff.Jitter)
	case c.outcomes > 1:
		return errors.New("client: DeadLetter, StopOnFailure and Skip exclude each other")
	case c.outcome == onDeadLetter && c.deadLetter == "":
		return errors.New("client: DeadLetter without a topic")
	case c.maxRanges < 1 || c.maxRanges > tandemmsg.MaxOffsetRanges:
		return fmt.Errorf("client: MaxRangesBeforeCommit(%d): 1 to %d", c.maxRanges, tandemmsg.MaxOffsetRanges)
	case c.commitInterval <= 0 || c.lease < 0 || c.drain < 0:
		return errors.New("client: CommitInterval has to be above 0, Lease and DrainTimeout at least 0")
	case c.maxRecords < 1 || c.maxBytes < 1:
		return fmt.Errorf("client: MaxBuffered(%d, %d): at least 1 of each", c.maxRecords, c.maxBytes)
	case c.isolation > ReadCommitted:
		return fmt.Errorf("client: unknown isolation level %d", c.isolation)
	case c.reset > NoReset:
		return fmt.Errorf("client: unknown reset policy %d", c.reset)
	}
	for topic, partitions := range c.assign {
		if topic == "" {
			return errors.New("client: Assign: a topic without a name")
		}
		for p, keys := range partitions {
			if err := keys.Validate(); err != nil || p < 0 || len(keys) > tandemmsg.MaxKeyRanges {
				return fmt.Errorf("client: Assign: topic %q, partition %d: %d key ranges: %v", topic, p, len(keys), err)
			}
		}
	}
	return nil
}

// executor is the part of it that the handler mode has.
func (c *config) executor() executor.Config {
	e := executor.Config{
		Handlers: c.concurrency, MaxRecords: c.maxRecords, MaxBytes: c.maxBytes, MaxShed: maxShed, MaxAttempts: int32(c.attempts),
		Backoff: executor.Backoff{First: int64(c.backoff.First), Max: int64(c.backoff.Max), Jitter: int64(c.backoff.Jitter)},
		Lease:   int64(c.lease), CommitInterval: int64(c.commitInterval), MaxRanges: c.maxRanges, Seed: uint64(time.Now().UnixNano()),
	}
	switch c.order {
	case ByPartition:
		e.Order = executor.ByPartition
	case NoOrder:
		e.Order = executor.Unordered
	}
	switch c.outcome {
	case onStop:
		e.Last = executor.Stop
	case onSkip:
		e.Last = executor.Skip
	}
	return e
}
