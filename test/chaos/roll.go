package chaos

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// roll calls the members of a group again and again, straight from the cluster, to know which of them it has dropped. Members are told
// apart by their client ids.
type roll struct {
	mu      sync.Mutex
	present map[string]map[string]time.Time // client id -> member id -> when it was last seen
	dropped map[string][]time.Time          // client id -> when it was last seen as a member that is none any more
	came    map[string][]time.Time          // client id -> when it was first seen as a member
}

func call(t testing.TB, a *kadm.Client, group string) *roll {
	r := &roll{present: map[string]map[string]time.Time{}, dropped: map[string][]time.Time{}, came: map[string][]time.Time{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			asked := time.Now()
			// Errors are not the point here: the coordinator may be moving. Who was dropped is missing afterwards, too.
			if groups, err := a.DescribeGroups(ctx, group); err == nil && groups[group].Err == nil {
				r.enter(groups[group], asked)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

func (r *roll) enter(g kadm.DescribedGroup, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range g.Members {
		if r.present[m.ClientID] == nil {
			r.present[m.ClientID] = map[string]time.Time{}
		}
		if r.present[m.ClientID][m.MemberID].IsZero() {
			r.came[m.ClientID] = append(r.came[m.ClientID], asked)
		}
		r.present[m.ClientID][m.MemberID] = asked
	}
	for client, ids := range r.present {
		for id, seen := range ids {
			if !seen.Equal(asked) {
				delete(ids, id)
				r.dropped[client] = append(r.dropped[client], seen)
			}
		}
	}
}

// absences are the times at which a member was last seen before the group dropped it; killed members and those that left among them.
func (r *roll) absences(client string) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped[client]
}

// back is when a client was seen to have joined after a time; false: it was not.
func (r *roll) back(client string, after time.Time) (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.came[client] {
		if at.After(after) {
			return at, true
		}
	}
	return time.Time{}, false
}
