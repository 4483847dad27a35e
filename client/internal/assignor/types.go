package assignor

import "github.com/tandem-kafka/tandem/keyrange"

// Part is a member's part of a partition. The zero Part is all of it.
type Part struct {
	Keys keyrange.Set // empty: the whole partition
	Base int32        // that the positions of Keys are of, 1 or more; 0 where Keys is empty
}

// Whole reports whether the part is the whole partition.
func (p Part) Whole() bool { return len(p.Keys) == 0 }

// Set returns the part's key ranges, keyrange.Full for the whole partition.
func (p Part) Set() keyrange.Set {
	if p.Whole() {
		return keyrange.Set{keyrange.Full}
	}
	return p.Keys
}

// comparable reports whether positions of two parts are the same keys. Of two bases they are not; all keys are all keys.
func (p Part) comparable(other Part) bool { return p.Base == other.Base || p.Whole() || other.Whole() }

// Ranges are parts by topic and partition.
type Ranges map[string]map[int32]Part

// Set returns the key ranges of a partition; nothing where there is no such partition.
func (r Ranges) Set(topic string, partition int32) keyrange.Set {
	if part, ok := r[topic][partition]; ok {
		return part.Set()
	}
	return nil
}

// Put stores the key ranges of a partition; an empty set changes nothing.
func (r Ranges) Put(topic string, partition int32, set keyrange.Set, base int32) {
	if len(set) == 0 {
		return
	}
	part := Part{set, base}
	if set.Covers(keyrange.Full) {
		part = Part{}
	}
	if r[topic] == nil {
		r[topic] = map[int32]Part{}
	}
	r[topic][partition] = part
}

// Minus returns what is in r and not in other. Nothing of a part is in a part of another base.
func (r Ranges) Minus(other Ranges) Ranges {
	rest := Ranges{}
	for topic, partitions := range r {
		for p, part := range partitions {
			from, ok := other[topic][p]
			if !ok || !part.comparable(from) {
				rest.Put(topic, p, part.Set(), part.Base)
				continue
			}
			rest.Put(topic, p, keyrange.AppendSubtract(nil, part.Set(), from.Set()), max(part.Base, from.Base))
		}
	}
	return rest
}

// Overlap returns what of r may be in other too: of a part all, if other has one of another base.
func (r Ranges) Overlap(other Ranges) Ranges {
	both := Ranges{}
	for topic, partitions := range r {
		for p, part := range partitions {
			with, ok := other[topic][p]
			switch {
			case !ok:
			case !part.comparable(with):
				both.Put(topic, p, part.Set(), part.Base)
			default:
				both.Put(topic, p, keyrange.AppendIntersect(nil, part.Set(), with.Set()), max(part.Base, with.Base))
			}
		}
	}
	return both
}

// Member is a member of the group as it joined.
type Member struct {
	ID         string   // given by the coordinator; of two members with one id the later is ignored
	InstanceID string   // of a static member, else empty
	Topics     []string // subscribed
	Share      bool     // opted in to sharing partitions by key
	Version    int16    // of the user data it speaks, 0: none; without one it gets whole partitions

	// Owned is what it was given in Generation (-1: not known). Holds says that it still works on it and will do so until an
	// assignment takes it away (a cooperative member); otherwise it has let go of it, and Owned only says what to leave with it.
	Owned      Ranges
	Generation int32
	Holds      bool
}

// Topic is what the leader knows of a topic.
type Topic struct {
	Partitions    int32
	KeyRangeFetch bool  // the topic allows key-range fetch
	Base          int32 // that key positions are of; 0: the number of partitions, by which Kafka's partitioner places keys
}

// Input is what an assignment is made from.
type Input struct {
	Members           []Member
	Topics            map[string]Topic // topics that are missing have no partition
	IndividualCommits bool             // the coordinator allows individual commits
	Generation        int32            // the one to assign for, 0: not known; claims from a later one come from an earlier life of the group

	// Last is the Target of the leader's assignment before this one, if it has one. Where it still fits it is carried on, so that
	// a move that takes two generations arrives at what the first one planned.
	Last map[string]Ranges
}

// Output is an assignment. All members of the input are in its maps.
type Output struct {
	Assigned map[string]Ranges // by member id: what it may work on in this generation. No two members have a position in common
	Target   map[string]Ranges // by member id: what it gets once the others let go of it. Each position of each partition has one member
	Notes    map[string][]Note // by member id: what it should know, by code
	Waiting  bool              // some member's Assigned is less than its Target: members that lose something must rejoin once they let go of it
}
