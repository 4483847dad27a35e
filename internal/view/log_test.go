package view

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// topic is a dumb stand-in for the definitions topic.
type topic struct {
	records []topicRecord
	next    int64
}

type topicRecord struct {
	Record
	offset int64
}

func (tp *topic) append(r Record) {
	tp.records = append(tp.records, topicRecord{r, tp.next})
	tp.next++
}

// compact keeps the last record of each key.
func (tp *topic) compact() {
	last := map[string]int64{}
	for _, r := range tp.records {
		last[string(r.Key)] = r.offset
	}
	var kept []topicRecord
	for _, r := range tp.records {
		if last[string(r.Key)] == r.offset {
			kept = append(kept, r)
		}
	}
	tp.records = kept
}

func (tp *topic) replay(l *Log) (changes []Change) {
	for _, r := range tp.records {
		if r.offset >= l.Next() {
			changes = append(changes, l.Apply(r.Key, r.Value, r.offset))
		}
	}
	return changes
}

// settle appends what is pending until nothing is.
func (tp *topic) settle(t interface{ Fatal(...any) }, l *Log) {
	for range 100 {
		tp.replay(l)
		pending := l.Pending()
		if len(pending) == 0 {
			return
		}
		for _, r := range pending {
			tp.append(r)
		}
	}
	t.Fatal("repetitions never end")
}

func state(l *Log) string { return fmt.Sprint(l.Views(), l.Slots()) }

func record(d Definition) Record {
	k, v := d.Encode()
	return Record{k, v}
}

func TestFirstDefinitionWinsAlsoAfterCompaction(t *testing.T) {
	first, second := mustNew(t, "w", orders, 16), mustNew(t, "w", orders, 8)
	var tp topic
	l := NewLog()
	tp.append(record(first))
	tp.append(record(second))
	changes := tp.replay(l)
	if changes[0].Kind != Added || changes[1].Kind != Refused || !strings.Contains(changes[1].Reason, "16 virtual") {
		t.Fatalf("%+v", changes)
	}
	tp.settle(t, l)
	tp.compact()
	fresh := NewLog()
	tp.replay(fresh)
	if d, ok := fresh.View("w"); !ok || d != first {
		t.Errorf("after compaction the view is %+v", d)
	}
}

func TestTopicIDIsLearnedAndKept(t *testing.T) {
	d := mustNew(t, "w", orders, 16)
	known := d
	known.TopicID = [16]byte{9}
	known.CreatedMs++
	var tp topic
	l := NewLog()
	tp.append(record(d))
	tp.append(record(known))
	if c := tp.replay(l); c[1].Kind != Learned || c[1].Definition.TopicID != known.TopicID {
		t.Fatalf("%+v", c)
	}
	tp.append(record(d)) // a slow gateway that does not know the id
	tp.settle(t, l)
	tp.compact()
	fresh := NewLog()
	tp.replay(fresh)
	if got, _ := fresh.View("w"); got.TopicID != known.TopicID {
		t.Errorf("topic id lost: %+v", got)
	}
	other := known
	other.TopicID = [16]byte{10}
	tp.append(record(other))
	if c := tp.replay(l); c[0].Kind != Refused {
		t.Errorf("another topic id: %+v", c)
	}
}

func TestDeletedViewCanBeMadeAnew(t *testing.T) {
	var tp topic
	l := NewLog()
	tp.append(record(mustNew(t, "w", orders, 16)))
	tp.append(Tombstone("w"))
	again := mustNew(t, "w", orders, 8)
	tp.append(record(again))
	kinds := tp.replay(l)
	if kinds[1].Kind != Removed || kinds[2].Kind != Added || len(l.Pending()) != 0 {
		t.Fatalf("%+v", kinds)
	}
	if d, _ := l.View("w"); d != again {
		t.Errorf("%+v", d)
	}
}

// A repetition that a slow gateway appends behind a tombstone must not bring the view back, compaction or not.
func TestRepetitionDoesNotBringADeletedViewBack(t *testing.T) {
	var tp topic
	l := NewLog()
	tp.append(record(mustNew(t, "w", orders, 16)))
	tp.append(record(mustNew(t, "w", orders, 8)))
	tp.replay(l)
	late := l.Pending()
	tp.append(Tombstone("w"))
	tp.append(late[0])
	tp.settle(t, l)
	tp.compact()
	fresh := NewLog()
	tp.replay(fresh)
	if len(l.Views()) != 0 || len(fresh.Views()) != 0 {
		t.Errorf("views %v, %v", l.Views(), fresh.Views())
	}
}

func TestUnreadableRecordsChangeNothingAndAreOverwritten(t *testing.T) {
	var tp topic
	l := NewLog()
	d := mustNew(t, "w", orders, 16)
	tp.append(record(d))
	tp.append(Record{definitionKey("w"), []byte("{")})
	tp.append(Record{[]byte("foreign"), []byte("x")})
	tp.append(Record{[]byte("broker/0999"), []byte("x")})
	tp.append(Record{nil, nil})
	for _, c := range tp.replay(l)[1:] {
		if c.Kind != Unknown || c.Reason == "" {
			t.Errorf("%+v", c)
		}
	}
	tp.settle(t, l)
	tp.compact()
	fresh := NewLog()
	tp.replay(fresh)
	if got, _ := fresh.View("w"); got != d {
		t.Errorf("%+v", got)
	}
}

func TestApplyingTwiceChangesNothing(t *testing.T) {
	l := NewLog()
	k, v := mustNew(t, "w", orders, 16).Encode()
	l.Apply(k, v, 5)
	l.Apply(k, nil, 6)
	if c := l.Apply(k, v, 5); c.Kind != Nothing || l.Next() != 7 || len(l.Views()) != 0 {
		t.Errorf("%+v, next %d, views %v", c, l.Next(), l.Views())
	}
}

func TestPortSlots(t *testing.T) {
	var tp topic
	l := NewLog()
	for id, want := range map[int32]int32{0: 1, 7: 8, 999: 1000} {
		if slot, ok := l.PortSlot(id); !ok || slot != want {
			t.Errorf("broker %d: slot %d, %v", id, slot, ok)
		}
		if _, ok := l.Claim(id); ok {
			t.Errorf("broker %d claims", id)
		}
	}
	for _, id := range []int32{-1, 1000, 100001} {
		if _, ok := l.PortSlot(id); ok {
			t.Errorf("broker %d has a slot", id)
		}
	}
	if _, ok := l.Claim(-1); ok {
		t.Error("broker -1 claims")
	}
	// Two gateways claim at once for different brokers: both say 1001.
	a, _ := l.Claim(100001)
	b, _ := l.Claim(5000)
	tp.append(a)
	tp.append(b)
	tp.append(a)
	if c := tp.replay(l); c[0].Kind != SlotAdded || c[0].Slot != 1001 || c[1].Kind != Refused || c[2].Kind != Nothing {
		t.Fatalf("%+v", c)
	}
	tp.settle(t, l)
	for id, want := range map[int32]int32{100001: 1001, 5000: 1002} {
		if slot, ok := l.PortSlot(id); !ok || slot != want {
			t.Errorf("broker %d: slot %d, %v", id, slot, ok)
		}
	}
	for _, value := range []string{"", "{}", `{"version":1,"slot":1000}`, `{"version":1,"slot":10000}`, `{"version":2,"slot":1001}`} {
		if _, err := decodeSlot([]byte(value)); err == nil {
			t.Errorf("slot from %q", value)
		}
	}
}

// Several gateways define, delete, claim and repeat in any order, some from an old picture. All that have read
// everything agree; and once nothing is pending, one that starts after a compaction agrees too.
func TestGatewaysAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tp topic
		logs := []*Log{NewLog(), NewLog(), NewLog()}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			l := rapid.SampledFrom(logs).Draw(t, "gateway")
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				tp.append(record(mustNew(t, name, orders, rapid.SampledFrom([]int32{4, 8}).Draw(t, "V"))))
			case 2:
				if rapid.Bool().Draw(t, "tombstone") {
					tp.append(Tombstone(name))
				} else {
					tp.append(Record{definitionKey(name), []byte("junk")})
				}
			case 3:
				if r, ok := l.Claim(rapid.Int32Range(1000, 1003).Draw(t, "broker")); ok {
					tp.append(r)
				}
			case 4:
				for _, r := range l.Pending() {
					tp.append(r)
				}
			default:
				tp.replay(l)
			}
		}
		for _, l := range logs {
			tp.replay(l)
			if state(l) != state(logs[0]) {
				t.Fatalf("gateways differ:\n%s\n%s", state(l), state(logs[0]))
			}
		}
		tp.settle(t, logs[0])
		tp.compact()
		fresh := NewLog()
		tp.replay(fresh)
		if state(fresh) != state(logs[0]) {
			t.Fatalf("after compaction:\n%s\n%s", state(fresh), state(logs[0]))
		}
		owners := map[int32]bool{}
		for _, s := range fresh.Slots() {
			if owners[s.Slot] {
				t.Fatalf("slot %d twice: %v", s.Slot, fresh.Slots())
			}
			owners[s.Slot] = true
		}
	})
}

func FuzzApply(f *testing.F) {
	k, v := mustNew(f, "orders.view16", orders, 16).Encode()
	f.Add(k, v, false)
	f.Add([]byte("broker/1000"), encodeSlot(1001), false)
	f.Fuzz(func(t *testing.T, key, value []byte, tombstone bool) {
		if tombstone {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		l := NewLog()
		l.Apply(key, value, 0)
		l.Apply(bytes.Clone(key), value, 1)
		for i, r := range l.Pending() {
			l.Apply(r.Key, r.Value, int64(2+i))
		}
		if p := l.Pending(); len(p) > 0 {
			t.Fatalf("still pending: %q", p)
		}
	})
}
