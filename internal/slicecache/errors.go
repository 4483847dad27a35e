package slicecache

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/internal/split"
)

// kafkaError turns an error of a load into one that every consumer understands in a Fetch answer. The Java client throws on
// codes it does not expect there, so what is unknown but passes by becomes NOT_LEADER_OR_FOLLOWER: consumers ask for
// metadata and come again.
func kafkaError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, split.ErrCorrupt) || errors.Is(err, split.ErrTooLarge) || errors.Is(err, split.ErrUnsupported) {
		return kerr.CorruptMessage
	}
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		return kerr.NotLeaderForPartition // the cluster cannot be reached just now
	}
	switch ke.Code {
	case kerr.NotLeaderForPartition.Code, kerr.ReplicaNotAvailable.Code, kerr.KafkaStorageError.Code, kerr.OffsetNotAvailable.Code,
		kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code, kerr.InconsistentTopicID.Code, kerr.OffsetOutOfRange.Code,
		kerr.TopicAuthorizationFailed.Code, kerr.UnknownServerError.Code, kerr.CorruptMessage.Code:
		return ke
	}
	if ke.Retriable {
		return kerr.NotLeaderForPartition
	}
	return kerr.UnknownServerError
}

func isCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
