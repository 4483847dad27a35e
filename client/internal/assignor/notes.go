package assignor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// NoteCode tells a member why its assignment is not what it may expect. Codes travel in user data: they never change their meaning.
type NoteCode uint32

// The codes.
const (
	NoteNotOptedIn  NoteCode = 1 // no partition: fewer partitions than subscribers, and it did not opt in to sharing
	NoteNoneLeft    NoteCode = 2 // no partition, although it opted in: see Note.String
	NoteCoordinator NoteCode = 3 // whole partitions or none, since the coordinator does not allow individual commits
	NoteTopic       NoteCode = 4 // whole partitions or none, since the topic does not allow key-range fetch
	NoteUserData    NoteCode = 5 // its user data could not be read, so it counts as not opted in. No topic
	NoteWaiting     NoteCode = 6 // part of its share is still with other members, and follows in the next generation. No topic
	NoteNoTopic     NoteCode = 7 // the topic does not exist, as far as the leader knows
)

// maxNoteTopics is how many topics a note names. A group may have thousands, and the coordinator keeps all notes in one record.
const maxNoteTopics = 5

// Note tells a member something about topics, or about all of them (Topics is empty).
type Note struct {
	Code   NoteCode
	Topics []string // sorted, the first few
	More   uint32   // topics that it means in addition
}

func (n Note) String() string {
	of := "topic " + strings.Join(n.Topics, ", ")
	if len(n.Topics) > 1 || n.More > 0 {
		of = "topics " + strings.Join(n.Topics, ", ")
	}
	if n.More > 0 {
		of += fmt.Sprintf(" and %d more", n.More)
	}
	switch n.Code {
	case NoteNotOptedIn:
		return fmt.Sprintf("no partition of %s: fewer partitions than this group has subscribers, and this member did not opt in to sharing partitions", of)
	case NoteNoneLeft:
		return fmt.Sprintf("no partition of %s: the partitions are with members that did not opt in to sharing, or no more members opted in than there are partitions", of)
	case NoteCoordinator:
		return fmt.Sprintf("partitions of %s are not shared: the coordinator does not allow individual commits", of)
	case NoteTopic:
		return fmt.Sprintf("partitions of %s are not shared: key-range fetch is not allowed there", of)
	case NoteUserData:
		return "the leader of the group could not read this member's user data: it counts as a member that did not opt in to sharing partitions"
	case NoteWaiting:
		return "part of this member's share is still with other members, and follows when they let go of it"
	case NoteNoTopic:
		return fmt.Sprintf("no partition of %s: not there, as far as the leader of the group knows", of)
	}
	return fmt.Sprintf("note %d on %s, which this version does not know", n.Code, of)
}

func (p *problem) notes(target plan) [][]Note {
	notes := make([][]Note, len(p.members))
	has := make([]int, len(p.members)) // the last topic of which it has something, counted from 1
	for t := range p.topics {
		for _, shares := range target[t] {
			for _, s := range shares {
				has[s.member] = t + 1
			}
		}
		topic := &p.topics[t]
		for _, m := range topic.subscribers {
			if code := p.note(topic, m, has[m] == t+1); code != 0 {
				notes[m] = addNote(notes[m], code, topic.name)
			}
		}
	}
	return notes
}

func addNote(notes []Note, code NoteCode, topic string) []Note {
	i, ok := slices.BinarySearchFunc(notes, code, func(n Note, c NoteCode) int { return cmp.Compare(n.Code, c) })
	if !ok {
		notes = slices.Insert(notes, i, Note{Code: code})
	}
	if n := &notes[i]; len(n.Topics) < maxNoteTopics {
		n.Topics = append(n.Topics, topic)
	} else {
		n.More++
	}
	return notes
}

func (p *problem) note(topic *topic, m int, has bool) NoteCode {
	switch {
	case topic.partitions == 0:
		return NoteNoTopic
	case !p.members[m].shares():
		if !has {
			return NoteNotOptedIn
		}
	case len(topic.sharers) > topic.partitions && !p.individualCommits:
		return NoteCoordinator
	case len(topic.sharers) > topic.partitions && !topic.keyRangeFetch:
		return NoteTopic
	case !has:
		return NoteNoneLeft
	}
	return 0
}
