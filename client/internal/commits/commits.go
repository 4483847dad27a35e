package commits

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// Partition is what is committed or asked for: key ranges of a partition.
type Partition struct {
	Topic     string
	Partition int32
	Keys      keyrange.Set // none: the whole key axis
	Base      int32        // of the positions of Keys, >= 1; 0: the topic's partition count at that moment
	// Plain leaves the additions away, for a broker without individual commits, a view, or a group without them: Keys and Base count for nothing.
	// An ordinary commit discards what was committed individually above it.
	Plain bool
}

// Commits reads and writes what one group has done. Its methods may be called by several goroutines at once. It has no goroutines.
type Commits struct {
	client *kgo.Client
	guard  *Guard
	group  string

	mu    sync.Mutex
	found *coordinator
}

// coordinator is the group's, as it was found.
type coordinator struct {
	id       int32
	features tandemmsg.Features
	commits  int16 // highest version of OffsetCommit
	txn      int16 // and of TxnOffsetCommit
	v2       bool  // transactions v2
}

// takes reports whether the additions may be sent to it, in a transaction or not.
func (at *coordinator) takes(txn bool) bool {
	if txn {
		return at.features.IndividualCommit && at.txn >= txnTagged
	}
	return at.features.IndividualCommit && at.commits >= tagged
}

// Backoff of what is tried again here.
const (
	backoffFrom = 50 * time.Millisecond
	backoffTo   = time.Second
)

// New returns the Commits of a group. The client has to dial through the guard.
func New(client *kgo.Client, guard *Guard, group string) *Commits {
	return &Commits{client: client, guard: guard, group: group}
}

// Features returns what the group's coordinator understands. Errors that pass are tried again until ctx ends.
func (c *Commits) Features(ctx context.Context) (f tandemmsg.Features, err error) {
	err = again(ctx, func() error {
		at, err := c.coordinator(ctx)
		if err == nil {
			f = at.features
		}
		return err
	})
	return f, err
}

// coordinator finds the group's coordinator, and asks it what it understands.
func (c *Commits) coordinator(ctx context.Context) (*coordinator, error) {
	c.mu.Lock()
	found := c.found
	c.mu.Unlock()
	if found != nil {
		return found, nil
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = c.group
	resp, err := find.RequestWith(ctx, c.client)
	if err != nil {
		return nil, err
	}
	id, code := resp.NodeID, resp.ErrorCode
	if len(resp.Coordinators) == 1 {
		id, code = resp.Coordinators[0].NodeID, resp.Coordinators[0].ErrorCode
	}
	if err := kerr.ErrorForCode(code); err != nil {
		return nil, err
	}
	at, err := c.look(ctx, id)
	if err != nil {
		c.refresh(ctx)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = at
	return at, nil
}

// look asks a broker what it understands.
func (c *Commits) look(ctx context.Context, id int32) (*coordinator, error) {
	ask := kmsg.NewPtrApiVersionsRequest()
	if names := c.client.OptValues(kgo.SoftwareNameAndVersion); len(names) == 2 { // as kgo names itself on the connection
		ask.ClientSoftwareName, _ = names[0].(string)
		ask.ClientSoftwareVersion, _ = names[1].(string)
	}
	kresp, err := c.client.Broker(int(id)).Request(ctx, ask)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.ApiVersionsResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if !c.guard.dialed.Load() {
		return nil, errUnguarded
	}
	at := &coordinator{id: id, features: tandemmsg.ReadFeatures(resp), commits: -1, txn: -1, v2: transactionsV2(resp)}
	for _, k := range resp.ApiKeys {
		switch kmsg.Key(k.ApiKey) {
		case kmsg.OffsetCommit:
			at.commits = k.MaxVersion
		case kmsg.TxnOffsetCommit:
			at.txn = k.MaxVersion
		}
	}
	return at, nil
}

// lost forgets a coordinator after an error, where it says that another broker may be it.
func (c *Commits) lost(ctx context.Context, at *coordinator, err error) {
	if !moved(err) {
		return
	}
	c.mu.Lock()
	if c.found == at {
		c.found = nil
	}
	c.mu.Unlock()
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		c.refresh(ctx)
	}
}

// refresh has the client learn the addresses of brokers.
func (c *Commits) refresh(ctx context.Context) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none
	_, _ = req.RequestWith(ctx, c.client)      // whoever needs them sees the error
}

// again calls do until its error is not one that may pass, or ctx ends. The error is the last that says what was wrong.
func again(ctx context.Context, do func() error) error {
	for wait := backoffFrom; ; wait = min(2*wait, backoffTo) {
		err := do()
		if Classify(err) != Retriable {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(err, ctx.Err()) {
				return err
			}
			return fmt.Errorf("%w (%v)", err, ctx.Err())
		case <-time.After(wait):
		}
	}
}
