package client

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lookoutPause is how often a member whose connections break asks where the brokers are.
const lookoutPause = 500 * time.Millisecond

// lookout has a member ask for the brokers when one of its connections has ended. kgo asks the coordinator that it knows, again and again, as long as that is a broker of the cluster: at a
// gateway's port connections come about also where the broker behind it is down, and only the brokers' list says so. The new coordinator waits no longer for
// its members than their session timeout.
//
// It sees, too, whether the member waits for the answer to a JoinGroup.
type lookout struct {
	client  atomic.Pointer[kgo.Client]
	asked   atomic.Int64 // ns since the epoch
	joining atomic.Bool
}

var (
	_ kgo.HookBrokerDisconnect = (*lookout)(nil)
	_ kgo.HookBrokerWrite      = (*lookout)(nil)
	_ kgo.HookBrokerRead       = (*lookout)(nil)
)

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (l *lookout) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.JoinGroup) && err == nil {
		l.joining.Store(true)
	}
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (l *lookout) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.JoinGroup) {
		l.joining.Store(false)
	}
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (l *lookout) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	c, now, asked := l.client.Load(), time.Now().UnixNano(), l.asked.Load()
	if c != nil && now-asked >= int64(lookoutPause) && l.asked.CompareAndSwap(asked, now) {
		c.ForceMetadataRefresh()
	}
}

// enter makes the client of the member. With the session ends what its callbacks wait for, and a join that nobody answers: closing it waits for both.
func (s *session) enter(opts []kgo.Opt) (err error) {
	l := &s.lookout
	if s.group, err = kgo.NewClient(append(opts, kgo.WithContext(s.ctx), kgo.WithHooks(l))...); err == nil {
		l.client.Store(s.group)
	}
	return err
}
