package commits

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/offsets"
)

// Member is who commits.
type Member struct {
	ID         string
	Generation int32   // -1: no member; then ID is empty
	InstanceID *string // of a static member
}

// caller is who commits, and in which transaction; nil: in none.
type caller struct {
	Member
	txn *Transaction
}

// NoMember is who commits for a group that has no members.
var NoMember = Member{Generation: -1}

// Entry is what is to be committed of a Partition.
type Entry struct {
	Partition
	Watermark int64           // everything below it is done; -1: nothing to say
	Ranges    []offsets.Range // done; sorted, disjoint. With Plain none
}

// Commit commits entries, and returns an error for each that is not known to be durable, at its index; nil if all are. It tries
// once, and once more if the coordinator has moved: what to do about other errors is the caller's.
func (c *Commits) Commit(ctx context.Context, as Member, entries []Entry) []error {
	return result(c.commit(ctx, caller{Member: as}, cutAll(entries)), len(entries))
}

// CommitUntil commits entries as Commit does, and tries Retriable ones again until ctx ends.
func (c *Commits) CommitUntil(ctx context.Context, as Member, entries []Entry) []error {
	return c.commitUntil(ctx, caller{Member: as}, entries)
}

func (c *Commits) commitUntil(ctx context.Context, as caller, entries []Entry) []error {
	pieces := cutAll(entries)
	_ = again(ctx, func() error {
		for _, p := range c.commit(ctx, as, pieces) {
			if Classify(p.err) == Retriable {
				return p.err
			}
		}
		return nil
	})
	return result(pieces, len(entries))
}

// result are the errors of entries that were cut into pieces.
func result(pieces []*piece, n int) (errs []error) {
	for _, p := range pieces {
		if p.err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, n)
		}
		if errs[p.entry] == nil || Classify(errs[p.entry]) < Classify(p.err) {
			errs[p.entry] = p.err
		}
	}
	return errs
}

// commit sends the pieces that are open.
func (c *Commits) commit(ctx context.Context, as caller, pieces []*piece) []*piece {
	for range 2 {
		var open []*piece
		for _, p := range pieces {
			if !p.done() {
				open = append(open, p)
			}
		}
		if !c.send(ctx, as, open) || ctx.Err() != nil {
			break
		}
	}
	return pieces
}

// send sends pieces, each once, and reports whether to do so once more, since the coordinator has moved.
func (c *Commits) send(ctx context.Context, as caller, pieces []*piece) (once bool) {
	for _, r := range pack(pieces) {
		at, err := c.coordinator(ctx)
		if err == nil && r.additions && !at.takes(as.txn != nil) {
			c.lost(ctx, at, kerr.NotCoordinator) // there may be a gateway the next time
			err = ErrUnsupported
		}
		if err != nil {
			r.failAll(err)
			continue
		}
		if err := c.sendTo(ctx, at, as, r); err != nil {
			c.lost(ctx, at, err)
			once = once || moved(err) && Classify(err) == Retriable
		}
	}
	return once
}

// sendTo sends one request, and leaves each piece's result in it. It returns an error that concerns all of them.
func (c *Commits) sendTo(ctx context.Context, at *coordinator, as caller, r *request) error {
	tell := c.tell
	if as.txn != nil {
		tell = c.tellIn
	}
	codes, err := tell(ctx, at, as, r)
	if err != nil {
		r.failAll(err)
		return err
	}
	var concerns error
	for _, p := range r.pieces {
		code, ok := codes[place{p.Topic, p.Partition.Partition}]
		if p.err = kerr.ErrorForCode(code); !ok {
			p.err = errMissing
		}
		p.durable = p.err == nil
		if p.err != nil && moved(p.err) {
			concerns = p.err
		}
	}
	return concerns
}

// place is a partition of a request, and codes are the answer to one.
type place struct {
	topic     string
	partition int32
}

type codes map[place]int16

// tell sends a request in no transaction.
func (c *Commits) tell(ctx context.Context, at *coordinator, as caller, r *request) (codes, error) {
	req := r.message()
	req.Group, req.Generation, req.MemberID, req.InstanceID = c.group, as.Generation, as.ID, as.InstanceID
	kresp, err := c.client.Broker(int(at.id)).Request(ctx, &commitRequest{req, r.additions})
	if err == nil && r.additions && req.Version < tagged {
		err = ErrUnsupported
	}
	if err != nil {
		return nil, err
	}
	all := make(codes, len(r.pieces))
	resp := kresp.(*kmsg.OffsetCommitResponse)
	for i := range resp.Topics {
		for _, p := range resp.Topics[i].Partitions {
			all[place{resp.Topics[i].Topic, p.Partition}] = p.ErrorCode
		}
	}
	return all, nil
}

var (
	errMissing = fmt.Errorf("commits: the answer leaves the partition out: %w", kerr.RequestTimedOut)
	errInvalid = errors.New("commits: not valid")
)

const (
	tagged    = 8 // the first version of OffsetCommit with tagged fields
	lastNamed = 9 // the last ones of OffsetCommit and OffsetFetch that name topics; then they have ids
)

// commitRequest pins the versions of an OffsetCommit: kgo takes the highest that it and the broker know.
type commitRequest struct {
	*kmsg.OffsetCommitRequest
	additions bool
}

// MaxVersion is the most that kgo may choose.
func (r *commitRequest) MaxVersion() int16 { return lastNamed }

// AppendTo commits nothing in a version in which the additions would be lost.
func (r *commitRequest) AppendTo(dst []byte) []byte {
	if r.additions && r.Version < tagged {
		r.Topics = nil
	}
	return r.OffsetCommitRequest.AppendTo(dst)
}
