package fetcher

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("fetcher: closed")

// ErrKeyRanges says that a broker answered a fetch of key ranges without ScannedOffset, so it does not know them, and the
// records are those of all keys. They are not used. A client that was led past the gateway gets it.
var ErrKeyRanges = errors.New("fetcher: the broker does not know key ranges: it is no Tandem gateway, or one that has them off")

// errStuck says that an answer holds less than one batch.
var errStuck = errors.New("fetcher: the broker's answer holds no complete batch")

// lost reports whether an error means that the leader may be another broker, or the topic another one.
func lost(err error) bool {
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		return false
	}
	switch ke {
	case kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.ReplicaNotAvailable,
		kerr.KafkaStorageError, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.BrokerNotAvailable:
		return true
	}
	return false
}

// passing reports whether an error may pass by itself: a connection's, or one that Kafka calls retriable.
func passing(err error) bool {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Retriable || ke == kerr.UnknownTopicID || ke == kerr.InconsistentTopicID ||
			ke == kerr.IllegalGeneration // of a member that hears of the next one a moment later than others
	}
	return false
}

// fail notes a failure of s, says when to try again, and tells Next if it has to know. f.mu is held.
func (f *Fetcher) fail(s *stream, err error, passing bool) {
	now := time.Now()
	if s.fails++; s.fails == 1 {
		s.since, s.reported = now, time.Time{}
	}
	wait := f.cfg.errorEvery
	if passing {
		wait = min(backoffFrom<<min(s.fails-1, 10), backoffTo)
	}
	s.retryAt = now.Add(wait)
	f.armAt(s.retryAt)
	if s.once != nil {
		if !passing {
			f.answer(s, Batch{Err: err})
		}
		return
	}
	if passing && now.Sub(s.since) < f.cfg.reportAfter || now.Sub(s.reported) < reportEvery || s.failing() {
		return
	}
	s.reported = now
	b := s.batch()
	b.Err = err
	f.put(&slot{Batch: b, s: s, decoded: true})
}

// succeed ends a row of failures.
func (s *stream) succeed() { s.trouble = trouble{} }
