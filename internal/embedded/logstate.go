package embedded

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

const (
	logStateFile    = "tandem-logs.json"
	logStateVersion = 1
)

// logBounds are what a partition's log had reached at some time. Neither ever
// goes back, so they hold for ever after.
type logBounds struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"` // in base64, as kfake writes it
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"` // records below are deleted
	End       int64  `json:"end"`   // the next offset was at least this
}

type logKey struct {
	topic     string
	partition int32
}

// logState keeps the bounds of the logs that records were deleted from, in one
// file. kfake keeps the log start on Close only, and the end of a log without
// records never: its offsets would start again at 0 and committed offsets
// point behind records that come later.
type logState struct {
	path string

	mu   sync.Mutex
	logs map[logKey]logBounds
}

type logStateJSON struct {
	Version int         `json:"version"`
	Logs    []logBounds `json:"logs"`
}

func loadLogState(path string) (*logState, error) {
	s := &logState{path: path, logs: map[logKey]logBounds{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var file logStateJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if file.Version > logStateVersion {
		return nil, fmt.Errorf("%s has version %d; this program knows %d: the data folder belongs to a newer Tandem", path, file.Version, logStateVersion)
	}
	for _, b := range file.Logs {
		s.logs[logKey{b.Topic, b.Partition}] = b
	}
	return s, nil
}

// all returns the bounds by topic and partition.
func (s *logState) all() []logBounds {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted()
}

func (s *logState) sorted() []logBounds {
	all := make([]logBounds, 0, len(s.logs))
	for _, b := range s.logs {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b logBounds) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

// raise notes that the log starts at least at start and ends at least at end.
// On return it is on disk.
func (s *logState) raise(t *kfake.TopicInfo, partition int32, start, end int64) error {
	return s.raiseAll([]logBounds{{Topic: t.Topic, TopicID: topicID(t), Partition: partition, Start: start, End: end}})
}

func (s *logState) raiseAll(bounds []logBounds) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	for _, b := range bounds {
		k := logKey{b.Topic, b.Partition}
		old, ok := s.logs[k]
		if ok && old.TopicID == b.TopicID {
			b.Start, b.End = max(b.Start, old.Start), max(b.End, old.End)
		}
		if b != old {
			s.logs[k], changed = b, true
		}
	}
	if !changed {
		return nil
	}
	return writeJSON(s.path, logStateJSON{Version: logStateVersion, Logs: s.sorted()})
}

// keep forgets the logs of topics that are gone.
func (s *logState) keep(topics map[string]topicFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, b := range s.logs {
		if t, ok := topics[k.topic]; !ok || t.ID != b.TopicID {
			delete(s.logs, k)
		}
	}
}

func topicID(t *kfake.TopicInfo) string { return base64.StdEncoding.EncodeToString(t.TopicID[:]) }

// writeJSON replaces the file so that a crash leaves the old or the new one.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes renames in a folder durable. Systems that cannot sync a folder
// have nothing better.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	_ = d.Sync()
	return nil
}
