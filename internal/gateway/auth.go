package gateway

import (
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// authCache remembers, for one connection, which topics its principal may READ.
// Only the connection's own goroutine uses it.
type authCache map[string]authEntry

type authEntry struct {
	code  int16 // what a client that wants to read is answered, 0: it may
	until time.Time
}

// opRead is READ's bit in Kafka's authorized operations (AclOperation 3).
const opRead = 1 << 3

// deniedFor is how long a refusal is trusted: a right that was just given
// counts soon.
const deniedFor = time.Second

// mayRead says whether the connection's principal may READ all the topics: 0,
// or the error code to answer. The cluster is asked on the client's own
// connection, and again when an answer is older than Limits.Authorization. An
// error means that the connection is gone.
func (c *conn) mayRead(topics ...string) (int16, error) {
	now := time.Now()
	var ask []string
	for _, t := range topics {
		if e, ok := c.auth[t]; !ok || now.After(e.until) {
			ask = append(ask, t)
		}
	}
	if len(ask) > 0 {
		if err := c.askRead(now, ask, topics); err != nil {
			return 0, err
		}
	}
	for _, t := range topics {
		if code := c.auth[t].code; code != 0 {
			return code, nil
		}
	}
	return 0, nil
}

// maxAuth bounds what a connection remembers.
const maxAuth = 10_000

func (c *conn) askRead(now time.Time, topics, keep []string) error {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.IncludeTopicAuthorizedOperations = true
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	if err := c.setVersion(c.ctx, req, -1); err != nil {
		return err
	}
	if req.Version < 8 {
		return fmt.Errorf("gateway: Metadata v%d does not say who may read a topic; Kafka 2.3 or later is needed", req.Version)
	}
	resp, err := c.roundTrip(c.ctx, req)
	if err != nil {
		return err
	}
	if c.auth == nil || len(c.auth)+len(topics) > maxAuth { // clients choose names
		old := c.auth
		c.auth = make(authCache)
		for _, t := range keep {
			if e, ok := old[t]; ok {
				c.auth[t] = e
			}
		}
	}
	for _, t := range topics {
		c.auth[t] = authEntry{code: kerr.UnknownTopicOrPartition.Code}
	}
	r := resp.(*kmsg.MetadataResponse)
	for i := range r.Topics {
		if t := &r.Topics[i]; t.Topic != nil {
			c.auth[*t.Topic] = c.entryFor(t, now)
		}
	}
	return nil
}

func (c *conn) entryFor(t *kmsg.MetadataResponseTopic, now time.Time) authEntry {
	ops := t.AuthorizedOperations
	switch {
	case t.ErrorCode == kerr.TopicAuthorizationFailed.Code:
		return authEntry{code: t.ErrorCode, until: now.Add(deniedFor)}
	case t.ErrorCode == kerr.UnknownTopicOrPartition.Code:
		return authEntry{code: t.ErrorCode} // it may just have been made: ask again
	case ops == math.MinInt32 || ops&opRead == 0:
		if t.ErrorCode != 0 {
			return authEntry{code: t.ErrorCode}
		}
		return authEntry{code: kerr.TopicAuthorizationFailed.Code, until: now.Add(deniedFor)}
	}
	return authEntry{until: now.Add(c.gw.cfg.Limits.Authorization)}
}

// mayReadView says whether the connection's principal may READ a view and its
// source: shared data goes to nobody else.
func (c *conn) mayReadView(w *View) (int16, error) {
	return c.mayRead(w.Name, w.Source)
}
