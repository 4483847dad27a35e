package gateway

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// generations are the latest in which the cluster accepted commits of groups, or
// members of cooperative fetches, through this gateway. A Fetch of key ranges may name the generation of its member
// (tandemmsg.Member): one that is over is told so, as a commit of its would be.
// The cluster is not asked for that: the fetch may be on another broker than the
// coordinator, and records that are given to a member which lost its key ranges do
// no harm, since its commits are refused.
type generations struct {
	mu     sync.Mutex
	latest map[string]acceptedIn
}

type acceptedIn struct {
	generation int32
	at         time.Time
}

// generationFor is how long an accepted commit says that earlier generations are
// over: a coordinator that has forgotten a group counts from 1 again.
const generationFor = 10 * time.Second

// accepted takes note of the answer to a commit.
func (g *generations) accepted(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) {
	if req.Generation < 0 || req.MemberID == "" {
		return
	}
	for i := range resp.Topics {
		for _, p := range resp.Topics[i].Partitions {
			if p.ErrorCode == 0 {
				g.note(req.Group, req.Generation)
				return
			}
		}
	}
}

func (g *generations) note(group string, generation int32) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if l, ok := g.latest[group]; ok && l.generation > generation && now.Sub(l.at) < generationFor {
		return // its answer was slow
	}
	if g.latest == nil || len(g.latest) >= maxParts {
		g.latest = make(map[string]acceptedIn)
	}
	g.latest[group] = acceptedIn{generation, now}
}

// over reports whether a generation is known to be over.
func (g *generations) over(group string, generation int32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.latest[group]
	return ok && generation < l.generation && time.Since(l.at) < generationFor
}

// forget is for a group that was deleted.
func (g *generations) forget(group string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.latest, group)
}
