package gateway

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// authCache remembers, for one connection, which topics its principal may READ.
// Only the connection's own goroutine uses it.
type authCache map[string]authEntry

type authEntry struct {
	allowed bool
	asked   time.Time
}

// opRead is READ's bit in Kafka's authorized operations (AclOperation 3).
const opRead = 1 << 3

// mayRead reports whether the connection's principal may READ all the topics.
// The cluster is asked on the client's own connection, and again when an
// answer is older than Limits.Authorization.
func (c *conn) mayRead(ctx context.Context, topics ...string) (bool, error) {
	now := time.Now()
	var ask []string
	for _, t := range topics {
		if e, ok := c.auth[t]; !ok || now.Sub(e.asked) > c.gw.cfg.Limits.Authorization {
			ask = append(ask, t)
		}
	}
	if len(ask) > 0 {
		if err := c.askRead(ctx, now, ask); err != nil {
			return false, err
		}
	}
	for _, t := range topics {
		if !c.auth[t].allowed {
			return false, nil
		}
	}
	return true, nil
}

func (c *conn) askRead(ctx context.Context, now time.Time, topics []string) error {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.IncludeTopicAuthorizedOperations = true
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	if err := c.setVersion(ctx, req, -1); err != nil {
		return err
	}
	if req.Version < 8 {
		return fmt.Errorf("gateway: Metadata v%d does not say who may read a topic; Kafka 2.3 or later is needed", req.Version)
	}
	resp, err := c.roundTrip(ctx, req)
	if err != nil {
		return err
	}
	if c.auth == nil {
		c.auth = make(authCache)
	}
	for _, t := range topics {
		c.auth[t] = authEntry{asked: now}
	}
	r := resp.(*kmsg.MetadataResponse)
	for i := range r.Topics {
		t := &r.Topics[i]
		if t.Topic == nil || t.ErrorCode != 0 {
			continue
		}
		ops := t.AuthorizedOperations
		c.auth[*t.Topic] = authEntry{allowed: ops != math.MinInt32 && ops&opRead != 0, asked: now}
	}
	return nil
}

// mayReadView reports whether the connection's principal may READ a view and
// its source: shared data goes to nobody else.
func (c *conn) mayReadView(ctx context.Context, w *View) (bool, error) {
	return c.mayRead(ctx, w.Name, w.Source)
}
