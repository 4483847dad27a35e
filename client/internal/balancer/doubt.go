package balancer

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kgo says that everything is lost whenever the management of the group ends with an error: also where a connection broke, or a request was not
// answered in time, and the coordinator has the member as before. So a member first doubts. It is out once the coordinator has said so: by an error (isOut),
// or by giving it a new member id when it joins again. If it joins again as who it was, then it was a member all the time, and nobody was given
// what it holds: no generation comes about without each of its members having joined, and this one says what it holds when it does.

// doubt is not to know whether one is in the group any more.
type doubt struct {
	ctx    context.Context
	client *kgo.Client
	member string // the id it had
}

// isOut reports whether an error of the management of the group says that the member is not in it.
func isOut(err error) bool {
	return errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.FencedInstanceID)
}

// InDoubt reports whether the member does not know if it is in the group any more.
func (b *Balancer) InDoubt() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.doubt != nil
}

// onLost is called when the management of the group has ended with an error, which OnGroupManageError is told then.
func (b *Balancer) onLost(ctx context.Context, client *kgo.Client, _ map[string][]int32) {
	id, _ := client.GroupMetadata()
	b.mu.Lock()
	first, has := b.doubt == nil, b.now.ranges
	b.next, b.doubt = nil, &doubt{ctx, client, id}
	b.mu.Unlock()
	switch {
	case id == "":
		b.lose()
	case first && len(has) > 0:
		b.cfg.Doubted(ctx, client, has)
	}
}

// OnGroupManageError implements kgo.HookGroupManageError.
func (b *Balancer) OnGroupManageError(err error) {
	if isOut(err) {
		b.lose()
	}
}

// checkMember is called before the member joins. kgo joins without a member id when the coordinator did not know the one it had.
func (b *Balancer) checkMember() {
	b.mu.Lock()
	d := b.doubt
	b.mu.Unlock()
	if d == nil {
		return
	}
	if id, _ := d.client.GroupMetadata(); id != d.member {
		b.lose()
	}
}

// lose ends a doubt: the member is out, and others may have what it has.
func (b *Balancer) lose() {
	b.mu.Lock()
	d, lost := b.doubt, b.now.ranges
	if d == nil {
		b.mu.Unlock()
		return
	}
	b.now, b.had, b.next, b.doubt = none(), none(), nil, nil
	b.mu.Unlock()
	if len(lost) > 0 {
		b.cfg.Lost(d.ctx, d.client, lost)
	}
}

// GiveUp has the work on everything ended while it is in doubt: kgo calls nobody if a member leaves then.
func (b *Balancer) GiveUp(ctx context.Context) {
	b.mu.Lock()
	d, has := b.doubt, b.now.ranges
	b.mu.Unlock()
	if d != nil {
		b.giveUp(ctx, d.client, has)
	}
}

var _ kgo.HookGroupManageError = (*Balancer)(nil)
