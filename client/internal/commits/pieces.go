package commits

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// piece is an Entry, or a part of one, that fits in a request.
type piece struct {
	Partition
	entry   int
	says    tandemmsg.Commit // a Plain one: its Watermark
	err     error
	durable bool
}

// done reports whether there is nothing to send any more.
func (p *piece) done() bool { return p.durable || p.err != nil && Classify(p.err) != Retriable }

func (p *piece) facts() int { return max(len(p.says.Keys), 1) * max(len(p.says.Offsets), 1) }

// cutAll cuts entries into pieces.
func cutAll(entries []Entry) (pieces []*piece) {
	for i := range entries {
		pieces = append(pieces, cut(i, &entries[i])...)
	}
	return pieces
}

func cut(i int, e *Entry) (pieces []*piece) {
	if e.Watermark < 0 && len(e.Ranges) == 0 {
		return nil
	}
	if e.Plain {
		p := &piece{Partition: e.Partition, entry: i, says: tandemmsg.Commit{Watermark: e.Watermark}}
		if len(e.Ranges) > 0 {
			p.err = fmt.Errorf("%w: an ordinary commit of offset ranges", errInvalid)
		}
		return []*piece{p}
	}
	keys := e.Keys
	if len(keys) == 0 {
		keys = keyrange.Set{keyrange.Full} // said, since a watermark without key ranges is an ordinary commit
	}
	ranges := offsetRanges(e)
	for some := range slices.Chunk(keys, tandemmsg.MaxKeyRanges) {
		says := tandemmsg.Commit{Keys: some, Base: e.Base, Watermark: e.Watermark}
		rest, limit := ranges, min(tandemmsg.MaxOffsetRanges, tandemmsg.MaxFacts/len(some))
		for {
			if len(ranges) > 0 {
				n := min(limit, len(rest))
				says.Offsets, says.Watermark, rest = rest[:n], -1, rest[n:]
			}
			p := &piece{Partition: e.Partition, entry: i, says: says}
			if err := says.Validate(); err != nil {
				p.err = fmt.Errorf("%w: topic %q, partition %d: %v", errInvalid, e.Topic, e.Partition.Partition, err)
			}
			if pieces = append(pieces, p); len(rest) == 0 {
				break
			}
		}
	}
	return pieces
}

// offsetRanges are those of an entry, with its watermark as the first: one row of a request cannot say both. None: the
// watermark is all that there is to say.
func offsetRanges(e *Entry) []tandemmsg.OffsetRange {
	if len(e.Ranges) == 0 {
		return nil
	}
	list := make([]tandemmsg.OffsetRange, 0, len(e.Ranges)+1)
	if e.Watermark > 0 {
		list = append(list, tandemmsg.OffsetRange{First: 0, Last: e.Watermark - 1})
	}
	for _, r := range e.Ranges {
		if 0 <= r.First && r.First <= r.Last && r.Last < e.Watermark {
			continue
		}
		if r.First >= 0 && r.First < e.Watermark {
			r.First = e.Watermark
		}
		list = append(list, tandemmsg.OffsetRange{First: r.First, Last: r.Last})
	}
	return list
}

// request is an OffsetCommit to be: each partition is in it once.
type request struct {
	pieces        []*piece
	additions     bool
	ranges, facts int
}

// pack divides pieces into requests, as few as can be found without searching long.
func pack(pieces []*piece) (requests []*request) {
	rows := make(map[place]int, len(pieces)) // the first request that has not had it
	for _, p := range pieces {
		at := place{p.Topic, p.Partition.Partition}
		i := rows[at]
		for i < len(requests) && !requests[i].fits(p) {
			i++
		}
		if i == len(requests) {
			requests = append(requests, &request{})
		}
		requests[i].add(p)
		rows[at] = i + 1
	}
	return requests
}

func (r *request) fits(p *piece) bool {
	return r.ranges+len(p.says.Offsets) <= tandemmsg.MaxOffsetRanges && r.facts+p.facts() <= tandemmsg.MaxFacts
}

func (r *request) add(p *piece) {
	r.pieces = append(r.pieces, p)
	r.ranges += len(p.says.Offsets)
	r.facts += p.facts()
	r.additions = r.additions || !p.Plain
}

func (r *request) failAll(err error) {
	for _, p := range r.pieces {
		p.err = err
	}
}

// message makes the request, without who commits.
func (r *request) message() *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	index := make(map[string]int, 4)
	for _, p := range r.pieces {
		i, ok := index[p.Topic]
		if !ok {
			i = len(req.Topics)
			index[p.Topic] = i
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic = p.Topic
			req.Topics = append(req.Topics, t)
		}
		of := kmsg.NewOffsetCommitRequestTopicPartition()
		of.Partition, of.LeaderEpoch = p.Partition.Partition, -1
		if p.Plain {
			of.Offset = p.says.Watermark
		} else if err := tandemmsg.WriteCommit(&of, p.says); err != nil {
			panic(err) // cut has validated it
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, of)
	}
	return req
}
