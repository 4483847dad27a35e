package embedded

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
)

// windowBatches is how many batches of a producer kfake knows again.
const windowBatches = 5

// producerWindow is an entry of kfake's seq_windows.json: the last batches of
// one producer in one partition, in a ring.
type producerWindow struct {
	PID       int64                        `json:"pid"`
	Topic     string                       `json:"topic"`
	Partition int32                        `json:"partition"`
	Entries   [windowBatches]windowedBatch `json:"entries"`
	Count     uint8                        `json:"count"`
	At        uint8                        `json:"at"`
	Epoch     int16                        `json:"epoch"`
	Seen      bool                         `json:"seen"`
	NextSeq   int32                        `json:"next_seq"`
}

type windowedBatch struct {
	FirstSeq int32 `json:"first_seq"`
	NextSeq  int32 `json:"next_seq"`
	Offset   int64 `json:"offset"`
}

// push takes the batch as kfake does when it is produced.
func (w *producerWindow) push(b batchHeader) {
	if b.producerEpoch != w.Epoch {
		*w = producerWindow{PID: w.PID, Topic: w.Topic, Partition: w.Partition, Epoch: b.producerEpoch}
	}
	// Sequences wrap to 0 behind MaxInt32; kfake takes them modulo MaxInt32.
	next := int32((int64(b.firstSequence) + int64(b.records)) % math.MaxInt32)
	w.Entries[w.At] = windowedBatch{b.firstSequence, next, b.first}
	w.At = (w.At + 1) % windowBatches
	w.Count = min(w.Count+1, windowBatches)
	w.Seen, w.NextSeq = true, next
}

// recoverWindows writes the sequence windows that the logs show. kfake saves
// them on Close only: after a crash it would take a retried batch a second
// time, or refuse the next one because of a window that is far behind.
func (f folder) recoverWindows(topics map[string]topicFile) error {
	file := struct {
		Version int               `json:"version"`
		Windows []*producerWindow `json:"windows"`
	}{Version: kfakeFormat}
	epochs := map[int64]int16{}
	for _, t := range topics {
		for p := range int32(t.Partitions) {
			windows := map[int64]*producerWindow{}
			err := scanLog(f.partition(t.Name, p), true, func(b batchHeader) bool {
				if b.producerID < 0 || b.control {
					return true
				}
				w := windows[b.producerID]
				if w == nil {
					w = &producerWindow{PID: b.producerID, Topic: t.Name, Partition: p, Epoch: b.producerEpoch}
					windows[b.producerID] = w
				}
				w.push(b)
				return true
			})
			if err != nil {
				return err
			}
			for pid, w := range windows {
				epochs[pid] = max(epochs[pid], w.Epoch)
				file.Windows = append(file.Windows, w)
			}
		}
	}
	slices.SortFunc(file.Windows, func(a, b *producerWindow) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.PID, b.PID))
	})
	// A window counts only for a producer id that pids.log has.
	if err := f.addProducerIDs(epochs); err != nil {
		return err
	}
	return writeJSON(filepath.Join(f.dir, "seq_windows.json"), file)
}
