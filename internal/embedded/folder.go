package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// kfakeFormat is the version of kfake's files that this package writes. The
// tests of this package show that kfake reads them.
const kfakeFormat = 1

const cleanFile = "tandem.clean"

// folder is a data folder: kfake's files and the engine's own.
type folder struct {
	dir string
	log *slog.Logger
}

// topicFile is a topic in kfake's topics.json.
type topicFile struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Partitions int               `json:"partitions"`
	Configs    map[string]string `json:"configs"`
}

func (t topicFile) compacted() bool { return strings.Contains(t.Configs["cleanup.policy"], "compact") }

// deletes says whether retention applies (Kafka's default policy is delete).
func (t topicFile) deletes() bool {
	p, ok := t.Configs["cleanup.policy"]
	return !ok || strings.Contains(p, "delete")
}

// limit returns a numeric config of the topic itself, -1 when it has none.
func (t topicFile) limit(name string) int64 {
	n, err := strconv.ParseInt(t.Configs[name], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// recover prepares the folder for kfake. It is called before kfake opens it.
func (f folder) recover(state *logState) error {
	clean := true
	if err := os.Remove(filepath.Join(f.dir, cleanFile)); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		clean = false
	}
	if err := f.undoCompaction(); err != nil {
		return err
	}
	var meta struct {
		Version int `json:"version"`
	}
	data, err := os.ReadFile(filepath.Join(f.dir, "meta.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a new folder
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return fmt.Errorf("meta.json: %w", err)
	}
	if meta.Version != kfakeFormat {
		return fmt.Errorf("its files have version %d; this program knows %d", meta.Version, kfakeFormat)
	}
	topics, err := f.topics()
	if err != nil {
		return err
	}
	state.keep(topics)
	for _, b := range state.all() {
		if err := f.restoreEnd(b); err != nil {
			return err
		}
	}
	if clean {
		return nil
	}
	f.log.Info("embedded engine: the last process on the data folder did not end cleanly; checking its files", "dir", f.dir)
	for _, name := range []string{"groups.log", "pids.log"} {
		if err := f.cutTornEntry(name); err != nil {
			return err
		}
	}
	return f.recoverWindows(topics)
}

// markClean notes that kfake has saved everything.
func (f folder) markClean() error {
	return os.WriteFile(filepath.Join(f.dir, cleanFile), nil, 0o644)
}

// topics reads kfake's list of topics, which it writes with every change.
func (f folder) topics() (map[string]topicFile, error) {
	var file struct {
		Topics []topicFile `json:"topics"`
	}
	data, err := os.ReadFile(filepath.Join(f.dir, "topics.json"))
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		return nil, fmt.Errorf("topics.json: %w", err)
	}
	topics := make(map[string]topicFile, len(file.Topics))
	for _, t := range file.Topics {
		topics[t.Name] = t
	}
	return topics, nil
}

func (f folder) partition(topic string, partition int32) string {
	return filepath.Join(f.dir, "partitions", fmt.Sprintf("%s-%d", url.PathEscape(topic), partition))
}

// snapshotFile is kfake's snapshot.json of a partition.
type snapshotFile struct {
	Version          int               `json:"version"`
	HighWatermark    int64             `json:"high_watermark"`
	LastStableOffset int64             `json:"last_stable_offset"`
	LogStartOffset   int64             `json:"log_start_offset"`
	CreatedAt        time.Time         `json:"created_at"`
	Segments         []segmentSnapshot `json:"segments"`
}

type segmentSnapshot struct {
	BaseOffset int64 `json:"base_offset"`
	Size       int64 `json:"size"`
}

// restoreEnd gives a log without records its end: an empty segment at that
// offset and a snapshot that names it. kfake appends to that segment.
func (f folder) restoreEnd(b logBounds) error {
	dir := f.partition(b.Topic, b.Partition)
	segments, err := logSegments(dir)
	if err != nil || b.End == 0 {
		return err
	}
	for _, base := range segments {
		info, err := os.Stat(filepath.Join(dir, segmentName(base)))
		if err != nil || info.Size() > 0 {
			return err
		}
	}
	for _, base := range segments { // of an earlier restoreEnd
		if err := os.Remove(filepath.Join(dir, segmentName(base))); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, segmentName(b.End)), nil, 0o644); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "snapshot.json"), snapshotFile{
		Version: kfakeFormat, HighWatermark: b.End, LastStableOffset: b.End, LogStartOffset: b.End,
		CreatedAt: time.Now(), Segments: []segmentSnapshot{{BaseOffset: b.End}},
	})
}
