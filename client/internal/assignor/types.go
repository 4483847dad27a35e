package assignor

import "github.com/tandem-kafka/tandem/keyrange"

// Ranges are key ranges by topic and partition. An empty set stands for the whole partition.
type Ranges map[string]map[int32]keyrange.Set

// Set returns the key ranges of a partition: keyrange.Full where the set is empty, nothing where there is no such partition.
func (r Ranges) Set(topic string, partition int32) keyrange.Set {
	set, ok := r[topic][partition]
	if ok && len(set) == 0 {
		return keyrange.Set{keyrange.Full}
	}
	return set
}

// Put stores the key ranges of a partition; an empty set changes nothing, and the whole axis is stored as an empty set.
func (r Ranges) Put(topic string, partition int32, set keyrange.Set) {
	if len(set) == 0 {
		return
	}
	if set.Covers(keyrange.Full) {
		set = nil
	}
	if r[topic] == nil {
		r[topic] = map[int32]keyrange.Set{}
	}
	r[topic][partition] = set
}

// Minus returns what is in r and not in other.
func (r Ranges) Minus(other Ranges) Ranges {
	rest := Ranges{}
	for topic, partitions := range r {
		for p := range partitions {
			rest.Put(topic, p, keyrange.AppendSubtract(nil, r.Set(topic, p), other.Set(topic, p)))
		}
	}
	return rest
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
	KeyRangeFetch bool // the topic allows key-range fetch
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
