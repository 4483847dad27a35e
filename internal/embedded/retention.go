package embedded

import (
	"context"
	"time"
)

// runRetention applies retention until ctx ends.
func (e *Engine) runRetention(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			e.applyRetention(now.UnixMilli())
		}
	}
}

// applyRetention deletes what the topics' own retention.ms and
// retention.bytes say is to be deleted at the time now (milliseconds). A topic
// without them keeps everything, and so does one that is compacted only.
func (e *Engine) applyRetention(now int64) {
	topics, err := e.folder.topics()
	if err != nil {
		e.log.Warn("embedded engine: retention", "error", err)
		return
	}
	for _, t := range topics {
		maxAge, maxBytes := t.limit("retention.ms"), t.limit("retention.bytes")
		if !t.deletes() || maxAge < 0 && maxBytes < 0 {
			continue
		}
		for p := range int32(t.Partitions) {
			pi := e.cluster.PartitionInfo(t.Name, p)
			if pi == nil {
				continue // deleted meanwhile
			}
			start, err := retainFrom(e.folder.partition(t.Name, p), pi.LogStartOffset, pi.NumBytes, now, maxAge, maxBytes)
			// Records of an open transaction stay, as below Kafka's last stable offset.
			if start = min(start, pi.LastStableOffset); err == nil && start > pi.LogStartOffset {
				_, err = e.deleteBefore(t.Name, p, start)
			}
			if err != nil {
				e.log.Warn("embedded engine: retention", "topic", t.Name, "partition", p, "error", err)
			}
		}
	}
}

// retainFrom returns where a log starts once the oldest batches have gone that
// are older than maxAge milliseconds or that the log can lose and still be of
// maxBytes; a negative limit is none.
func retainFrom(dir string, start, bytes, now, maxAge, maxBytes int64) (int64, error) {
	err := scanLog(dir, false, func(b batchHeader) bool {
		if b.last < start {
			return true // deleted before, in a segment that is still needed
		}
		tooOld := maxAge >= 0 && now-b.maxTimestamp > maxAge
		tooMuch := maxBytes >= 0 && bytes-b.size >= maxBytes
		if !tooOld && !tooMuch {
			return false
		}
		start, bytes = b.last+1, bytes-b.size
		return true
	})
	return start, err
}
