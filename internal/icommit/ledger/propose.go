package ledger

import (
	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/region"
)

// Propose returns the records that a transaction has to append for facts of a base; they count once it is committed and Replay gets them. Nothing changes
// here. It is ErrOver for facts that do not count, as with Add.
//
// Nothing is deleted, and there is no mark: the source row that goes with a transaction can be replaced by a lower one, which was written after it and
// is decided later. So everything that no decided record or mark covers is put, even if that source row would say it. What is redundant
// then goes with an Add without facts, for the stable offset that decided facts make, whose mark is durable first.
func (l *Ledger) Propose(base int32, topicID [16]byte, era int64, added []region.Fact) ([]record.Record, error) {
	r := region.New(0)
	switch {
	case l.is(topicID, era):
		r = l.look(base)
	case era <= l.era:
		return nil, ErrOver
	}
	a := Append{l: l, topicID: topicID, era: era}
	return a.records(ids(nil, base, era, r.Puts(added)), false), nil
}
