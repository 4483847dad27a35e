package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	compactFolder = "tandem-compact"
	compactReady  = "ready" // in compactFolder: the copy is whole
)

// compact compacts the topics with cleanup.policy=compact, once, before
// anybody is connected. kfake removes a log's segments before it writes the
// new ones, so a second name of each file is kept until it is done.
func (e *Engine) compact() error {
	topics, err := e.folder.topics()
	if err != nil {
		return err
	}
	var bounds []logBounds
	var dirs []string
	for _, t := range topics {
		limited := t.limit("retention.ms") >= 0 || t.limit("retention.bytes") >= 0
		if !t.compacted() && !limited {
			continue
		}
		if !t.deletes() && limited {
			// kfake's pass would delete by age what is only to be compacted.
			e.log.Warn("embedded engine: nothing is compacted because a compacted topic has retention settings", "topic", t.Name)
			return nil
		}
		for p := range int32(t.Partitions) {
			pi := e.cluster.PartitionInfo(t.Name, p)
			if pi == nil || pi.HighWatermark == pi.LogStartOffset {
				continue
			}
			// The pass applies retention too, which can empty a log.
			bounds = append(bounds, logBounds{t.Name, t.ID, p, pi.LogStartOffset, pi.HighWatermark})
			if t.compacted() {
				dirs = append(dirs, e.folder.partition(t.Name, p))
			}
		}
	}
	if len(dirs) == 0 {
		return nil
	}
	if err := e.state.raiseAll(bounds); err != nil {
		return err
	}
	if err := e.folder.linkLogs(dirs); err != nil {
		// A file system without hard links: then nothing is compacted.
		e.log.Warn("embedded engine: nothing is compacted", "error", err)
		return os.RemoveAll(filepath.Join(e.dir, compactFolder))
	}
	e.cluster.Compact()
	return e.folder.dropCompactionCopy()
}

// linkLogs gives every file of the partitions' logs a second name.
func (f folder) linkLogs(dirs []string) error {
	to := filepath.Join(f.dir, compactFolder)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	for _, dir := range dirs {
		copyDir := filepath.Join(to, filepath.Base(dir))
		if err := os.MkdirAll(copyDir, 0o755); err != nil {
			return err
		}
		names, err := logFiles(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := os.Link(filepath.Join(dir, name), filepath.Join(copyDir, name)); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(to, compactReady), nil, 0o644)
}

func (f folder) dropCompactionCopy() error {
	dir := filepath.Join(f.dir, compactFolder)
	if err := os.Remove(filepath.Join(dir, compactReady)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// undoCompaction puts the logs back that a crash interrupted the compaction
// of; the compaction is then done again.
func (f folder) undoCompaction() error {
	from := filepath.Join(f.dir, compactFolder)
	if _, err := os.Stat(filepath.Join(from, compactReady)); errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(from)
	} else if err != nil {
		return err
	}
	partitions, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		if !p.IsDir() {
			continue
		}
		dir, copyDir := filepath.Join(f.dir, "partitions", p.Name()), filepath.Join(from, p.Name())
		if err := putBack(dir, copyDir); err != nil {
			return err
		}
	}
	return f.dropCompactionCopy()
}

// putBack makes the copy's files the log of the partition. It can be repeated
// from any point.
func putBack(dir, copyDir string) error {
	saved, err := logFiles(copyDir)
	if err != nil {
		return err
	}
	now, err := logFiles(dir)
	if err != nil {
		return err
	}
	for _, name := range now {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, name := range saved {
		if err := os.Link(filepath.Join(copyDir, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// logFiles returns the names of the segments and their indexes.
func logFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".dat") || strings.HasSuffix(e.Name(), ".idx") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
