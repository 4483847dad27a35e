package embedded

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kfake"
)

// kfake's state logs (groups.log, pids.log) are sequences of entries: length
// of what follows the checksum, CRC-32C of that, a 2-byte version, JSON; all
// little-endian.
const entryHead = 10

func appendEntry(dst []byte, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	body := binary.LittleEndian.AppendUint16(nil, kfakeFormat)
	body = append(body, data...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(body)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(body, castagnoli))
	return append(dst, body...), nil
}

// readEntries calls fn with the JSON of each entry and returns the length of
// the part of raw that is whole.
func readEntries(raw []byte, fn func([]byte)) int {
	pos := 0
	for len(raw)-pos >= entryHead {
		n := int64(binary.LittleEndian.Uint32(raw[pos:]))
		if n < 2 || n > int64(len(raw)-pos-8) {
			break
		}
		body := raw[pos+8 : pos+8+int(n)]
		if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(raw[pos+4:]) {
			break
		}
		fn(body[2:])
		pos += 8 + int(n)
	}
	return pos
}

// cutTornEntry removes what a crash left of an entry at the end of a state
// log. kfake passes over it, but appends behind it, and at the next start
// reads nothing of what it appended.
func (f folder) cutTornEntry(name string) error {
	path := filepath.Join(f.dir, name)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	whole := readEntries(raw, func([]byte) {})
	if whole == len(raw) {
		return nil
	}
	f.log.Warn("embedded engine: removing an entry that was not written to its end", "file", name, "bytes", len(raw)-whole)
	return os.Truncate(path, int64(whole))
}

func (f folder) appendState(name string, entries []any) error {
	var buf []byte
	for _, e := range entries {
		var err error
		if buf, err = appendEntry(buf, e); err != nil {
			return err
		}
	}
	if len(buf) == 0 {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(f.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	// One write: a crash leaves all of it or a torn tail, which is cut.
	_, err = file.Write(buf)
	return errors.Join(err, file.Sync(), file.Close())
}

// addProducerIDs appends the producer ids that pids.log lacks: those that came
// with their first batch, without InitProducerId.
func (f folder) addProducerIDs(epochs map[int64]int16) error {
	raw, err := os.ReadFile(filepath.Join(f.dir, "pids.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known := map[int64]bool{}
	readEntries(raw, func(data []byte) {
		var e struct {
			PID int64 `json:"pid"`
		}
		if json.Unmarshal(data, &e) == nil {
			known[e.PID] = true
		}
	})
	var entries []any
	for _, pid := range slices.Sorted(maps.Keys(epochs)) {
		if !known[pid] {
			entries = append(entries, map[string]any{"type": "init", "pid": pid, "epoch": epochs[pid]})
		}
	}
	return f.appendState("pids.log", entries)
}

// appendDeletedOffsets writes that the group has no committed offsets. kfake
// must not write to groups.log at the same time: call it from a control
// function only.
func (f folder) appendDeletedOffsets(g *kfake.GroupInfo) error {
	var entries []any
	for topic, partitions := range g.Commits {
		for p := range partitions {
			entries = append(entries, map[string]any{"type": "delete", "g": g.Group, "t": topic, "p": p})
		}
	}
	if err := f.appendState("groups.log", entries); err != nil {
		return fmt.Errorf("groups.log: %w", err)
	}
	return nil
}
