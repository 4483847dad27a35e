package commits

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Class says what an error means for what was to be committed or read.
type Class uint8

// The classes.
const (
	// Done: there is no error, it is durable.
	Done Class = iota
	// Retriable: it may not be durable. Say it again.
	Retriable
	// Fenced: it is not durable, and the generation that it was said in is over. Say it again in the next one, if the member still
	// owns the key ranges. FENCED_INSTANCE_ID: another process has taken the member's place.
	Fenced
	// Fatal: it is not durable, and saying it again does not help: no rights, not valid, or the broker does not understand it.
	Fatal
)

// Classify returns the class of an error of this package.
func Classify(err error) Class {
	var ke *kerr.Error
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrUnsupported), errors.Is(err, errUnguarded), errors.Is(err, errInvalid), errors.Is(err, kgo.ErrClientClosed):
		return Fatal
	case !errors.As(err, &ke):
		return Retriable // of a connection, or the caller's context
	}
	switch ke {
	case kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.FencedInstanceID, kerr.RebalanceInProgress, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch:
		return Fenced
	case kerr.UnknownTopicID, // as UNKNOWN_TOPIC_OR_PARTITION
		kerr.ConcurrentTransactions: // the one before is not quite over
		return Retriable
	}
	if ke.Retriable {
		return Retriable
	}
	return Fatal
}

// moved reports whether an error means that the coordinator may be another broker.
func moved(err error) bool {
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		return err != nil
	}
	return ke == kerr.NotCoordinator || ke == kerr.CoordinatorNotAvailable
}
