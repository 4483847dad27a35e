package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const definitionPrefix = "view/"

func definitionKey(name string) []byte { return []byte(definitionPrefix + name) }

func definitionName(key []byte) (string, bool) {
	return strings.CutPrefix(string(key), definitionPrefix)
}

// Record is a record to append to the definitions topic; a nil Value is a tombstone.
type Record struct{ Key, Value []byte }

// Kind says what a record of the definitions topic changed.
type Kind int8

// The kinds of Change.
const (
	Nothing     Kind = iota // it repeats what is known, or was applied before
	Added                   // Definition is new
	Learned                 // Definition is known, but its TopicID is new
	Removed                 // Definition is gone
	SlotAdded               // Broker has got Slot
	SlotRemoved             // Broker has lost Slot
	Refused                 // an earlier record wins over this one; Reason says how
	Unknown                 // the record cannot be read; Reason says why
)

// Change is what one record did.
type Change struct {
	Kind       Kind
	Definition Definition // of Added, Learned and Removed
	Broker     int32      // of SlotAdded and SlotRemoved
	Slot       int32
	Reason     string // of Refused and Unknown, for the log
}

// Log replays the definitions topic, which has one partition and is compacted. Of several definitions of a name
// the first wins until a tombstone, so all gateways agree without talking to each other.
//
// Compaction keeps the *last* record of a key, which a loser may have written. A record that lost is therefore followed by
// a repetition of the winner's: Pending lists what to append, once the replay has reached the end. Several gateways
// may do it; repetitions change nothing. The topic's min.compaction.lag.ms must leave time for it.
type Log struct {
	next    int64 // offset to apply next
	views   map[string]Definition
	removed map[string]bool // names whose last valid record was a tombstone
	slots   map[int32]int32 // broker id -> slot
	owners  map[int32]int32 // slot -> broker id
	stale   map[string]bool // keys whose last record is not the state
}

// NewLog returns an empty Log, which expects the records of the topic from its start.
func NewLog() *Log {
	return &Log{views: map[string]Definition{}, removed: map[string]bool{}, slots: map[int32]int32{},
		owners: map[int32]int32{}, stale: map[string]bool{}}
}

// Next is the offset after the last record applied.
func (l *Log) Next() int64 { return l.next }

// Apply applies the record at offset. A record that was applied before changes nothing. value is nil for a tombstone.
func (l *Log) Apply(key, value []byte, offset int64) Change {
	if offset < l.next {
		return Change{}
	}
	l.next = offset + 1
	if name, ok := definitionName(key); ok {
		return l.applyDefinition(name, value)
	}
	if id, ok := brokerID(key); ok {
		return l.applySlot(id, value)
	}
	return Change{Kind: Unknown, Reason: fmt.Sprintf("key %.100q is none of tandem's", key)}
}

func (l *Log) applyDefinition(name string, value []byte) Change {
	key := definitionPrefix + name
	live, isLive := l.views[name]
	if value == nil {
		delete(l.stale, key)
		delete(l.views, name)
		l.removed[name] = true
		if !isLive {
			return Change{}
		}
		return Change{Kind: Removed, Definition: live}
	}
	d, repeat, err := decode(name, value)
	switch {
	case err != nil:
		// Whoever reads the topic after a compaction would not find what this record replaced.
		l.stale[key] = isLive || l.removed[name]
		return Change{Kind: Unknown, Reason: err.Error()}
	case !isLive && repeat && l.removed[name]:
		// A gateway repeated the winner while another one deleted the view: deleted it stays.
		l.stale[key] = true
		return Change{Kind: Refused, Reason: fmt.Sprintf("the definition of %s was repeated after its deletion", name)}
	case !isLive:
		delete(l.stale, key)
		delete(l.removed, name)
		l.views[name] = d
		return Change{Kind: Added, Definition: d}
	case !live.Same(d):
		l.stale[key] = true
		return Change{Kind: Refused, Reason: fmt.Sprintf("view %s: %s, but its first definition says %s", name, d.describe(), live.describe())}
	case live.TopicID == d.TopicID:
		delete(l.stale, key)
		return Change{}
	case live.TopicID == [16]byte{}:
		delete(l.stale, key)
		live.TopicID = d.TopicID
		l.views[name] = live
		return Change{Kind: Learned, Definition: live}
	default: // it does not know the topic id that is known: put that last again
		l.stale[key] = true
		return Change{}
	}
}

func (d Definition) describe() string {
	s := fmt.Sprintf("source %s (%s) %d partitions, %d virtual", d.Source, encodeID(d.SourceID), d.Base, d.Partitions)
	if d.TopicID != [16]byte{} {
		s += ", backing topic " + encodeID(d.TopicID)
	}
	return s
}

// Pending lists the records that must be appended so that each key's last record says what holds. It is meaningful
// once the replay has reached the end of the topic, and shrinks as the appended records are applied.
func (l *Log) Pending() []Record {
	var rs []Record
	for _, key := range slices.Sorted(maps.Keys(l.stale)) {
		if !l.stale[key] {
			continue
		}
		r := Record{Key: []byte(key)}
		if name, ok := definitionName(r.Key); ok {
			if d, ok := l.views[name]; ok {
				r.Value = d.encode(true)
			}
		} else if id, ok := brokerID(r.Key); ok {
			slot, _ := l.claimable(id)
			if slot == 0 {
				continue
			}
			r.Value = encodeSlot(slot)
		}
		rs = append(rs, r)
	}
	return rs
}

// View returns the definition of a live view.
func (l *Log) View(name string) (Definition, bool) {
	d, ok := l.views[name]
	return d, ok
}

// Views lists the live views by name.
func (l *Log) Views() []Definition {
	ds := make([]Definition, 0, len(l.views))
	for _, name := range slices.Sorted(maps.Keys(l.views)) {
		ds = append(ds, l.views[name])
	}
	return ds
}

// Records lists the records that say what holds, by key: what would have to be appended to an empty topic.
func (l *Log) Records() []Record {
	var rs []Record
	for _, d := range l.Views() {
		rs = append(rs, Record{Key: definitionKey(d.Name), Value: d.encode(false)})
	}
	for _, s := range l.Slots() {
		rs = append(rs, Record{Key: slotKey(s.Broker), Value: encodeSlot(s.Slot)})
	}
	return rs
}

// Tombstone is the record that ends a view.
func Tombstone(name string) Record { return Record{Key: definitionKey(name)} }
