package view

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A gateway has one port per broker: the bootstrap port plus the broker's slot. All gateways with one config must open the
// same port for a broker, for ever. Broker ids below 1000 need no record: their slot is 1+id. Others claim a
// slot from 1001 up in the definitions topic; the first claim of a broker, and of a slot, wins.
const (
	slotPrefix   = "broker/"
	ownSlots     = 1000 // broker ids below it have a slot of their own
	firstClaimed = ownSlots + 1
	// MaxSlot is the largest slot.
	MaxSlot = 9999
)

// PortSlot is the slot of a broker; false for an id >= 1000 that has not claimed one (append what Claim returns) and
// for a negative one.
func (l *Log) PortSlot(brokerID int32) (slot int32, ok bool) {
	if brokerID >= 0 && brokerID < ownSlots {
		return 1 + brokerID, true
	}
	slot, ok = l.slots[brokerID]
	return slot, ok
}

// Claim is the record to append for a broker that PortSlot does not know: a claim of the lowest free slot. Whether the
// claim won shows when the record has been read back. It is false when no slot is free or the broker needs none.
func (l *Log) Claim(brokerID int32) (Record, bool) {
	if _, ok := l.PortSlot(brokerID); ok {
		return Record{}, false
	}
	slot, ok := l.claimable(brokerID)
	if !ok {
		return Record{}, false
	}
	return Record{Key: slotKey(brokerID), Value: encodeSlot(slot)}, true
}

// claimable is the slot that a claim of the broker should name: its own, or the lowest free one; 0 and false if there is
// none. It is the same on all gateways that have read as far, so that two that claim for one broker agree.
func (l *Log) claimable(brokerID int32) (int32, bool) {
	if brokerID < ownSlots {
		return 0, false
	}
	if slot, ok := l.slots[brokerID]; ok {
		return slot, true
	}
	for slot := int32(firstClaimed); slot <= MaxSlot; slot++ {
		if _, taken := l.owners[slot]; !taken {
			return slot, true
		}
	}
	return 0, false
}

// Slot is a claimed slot.
type Slot struct{ Broker, Slot int32 }

// Slots lists the claimed slots by broker id.
func (l *Log) Slots() []Slot {
	ss := make([]Slot, 0, len(l.slots))
	for _, id := range slices.Sorted(maps.Keys(l.slots)) {
		ss = append(ss, Slot{id, l.slots[id]})
	}
	return ss
}

func (l *Log) applySlot(id int32, value []byte) Change {
	key := string(slotKey(id))
	mine, has := l.slots[id]
	if value == nil {
		delete(l.stale, key)
		delete(l.slots, id)
		delete(l.owners, mine)
		if !has {
			return Change{}
		}
		return Change{Kind: SlotRemoved, Broker: id, Slot: mine}
	}
	slot, err := decodeSlot(value)
	owner, taken := l.owners[slot]
	switch {
	case err != nil:
		l.stale[key] = has
		return Change{Kind: Unknown, Reason: fmt.Sprintf("slot of broker %d: %v", id, err)}
	case has && slot == mine:
		delete(l.stale, key)
		return Change{}
	case has:
		l.stale[key] = true
		return Change{Kind: Refused, Reason: fmt.Sprintf("broker %d claims slot %d, but has %d", id, slot, mine)}
	case taken:
		// Were it left as the key's last record, it would win once the owner's claim has been repeated behind it.
		l.stale[key] = true
		return Change{Kind: Refused, Reason: fmt.Sprintf("broker %d claims slot %d, which broker %d has", id, slot, owner)}
	}
	delete(l.stale, key)
	l.slots[id], l.owners[slot] = slot, id
	return Change{Kind: SlotAdded, Broker: id, Slot: slot}
}

func slotKey(id int32) []byte { return strconv.AppendInt([]byte(slotPrefix), int64(id), 10) }

// brokerID reads a slot's key; false unless it is exactly what slotKey writes, for an id that claims slots.
func brokerID(key []byte) (int32, bool) {
	digits, ok := strings.CutPrefix(string(key), slotPrefix)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || id < ownSlots || strconv.FormatInt(id, 10) != digits {
		return 0, false
	}
	return int32(id), true
}

func encodeSlot(slot int32) []byte { return fmt.Appendf(nil, `{"version":1,"slot":%d}`, slot) }

func decodeSlot(value []byte) (int32, error) {
	var j struct {
		Version int   `json:"version"`
		Slot    int32 `json:"slot"`
	}
	if err := strictJSON(value, &j); err != nil {
		return 0, err
	}
	if j.Version != 1 {
		return 0, fmt.Errorf("version %d: this tandem knows 1; upgrade it", j.Version)
	}
	if j.Slot < firstClaimed || j.Slot > MaxSlot {
		return 0, fmt.Errorf("%d is not a slot in [%d, %d]", j.Slot, firstClaimed, MaxSlot)
	}
	return j.Slot, nil
}
