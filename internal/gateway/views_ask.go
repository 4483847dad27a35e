package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/view"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file makes views by asking for them: a client names one in Metadata,
// DescribeTopicPartitions or a KIP-848 heartbeat.

// wanted reports whether asking for a topic of this name may have to make a
// view: it is one without a topic, or one of the config file that is not there
// yet, or looks like one.
func (v *views) wanted(name string) bool {
	if v.gw.cfg.NoViews {
		return false
	}
	if w := v.Name(name); w != nil {
		return w.Backing == 0
	}
	if _, ok := v.configured[name]; ok {
		return true
	}
	_, _, ok := view.ParseName(name)
	return ok && len(name) <= maxTopicName
}

// plan returns the source and the partitions that a view of this name has, or
// would have, and whether a client may make it by asking.
func (v *views) plan(name string, autoCreate bool) (source string, partitions int32, may bool) {
	if w := v.Name(name); w != nil {
		return w.Source, w.Partitions, true
	}
	if c, ok := v.configured[name]; ok {
		return c.Source, c.Partitions, true
	}
	source, partitions, _ = view.ParseName(name)
	return source, partitions, autoCreate
}

// asked returns the source and the partitions of a view that is to be made
// because a client asks for it, or an error where it is too large for that.
func (v *views) asked(name string) (source string, partitions int32, err error) {
	source, partitions, _ = v.plan(name, true)
	_, configured := v.configured[name]
	if most := v.gw.cfg.AutoCreateMax; most > 0 && partitions > most && !configured && v.Name(name) == nil {
		err = fmt.Errorf("view %s would have %d virtual partitions, and one that is made by asking for it may have %d (views.auto-create-max-partitions): make it with tandem view create", name, partitions, most)
	}
	return source, partitions, err
}

// ensureViews makes the views among the names that are wanted and may be made.
// It returns those that are there now, and an error code for each name that
// must not go to the cluster, which might make an ordinary topic of it. create
// says that the request allows the cluster to make topics: sources, too.
func (c *conn) ensureViews(ctx context.Context, names []string, create bool) (made []string, refused map[string]int16) {
	v := c.gw.views
	refused = make(map[string]int16)
	var wanted []string
	refs := make([]topicRef, 0, len(names))
	for _, n := range names {
		if v.wanted(n) {
			wanted, refs = append(wanted, n), append(refs, topicRef{name: n})
		}
	}
	refuse := func(names []string, cause error) ([]string, map[string]int16) {
		for _, n := range names {
			refused[n] = kerr.LeaderNotAvailable.Code // clients ask again
		}
		if len(names) > 0 && c.gw.often.now("views could not be looked up", 10*time.Second) {
			c.gw.log.Warn("views could not be looked up", "first", names[0], "cause", cause)
		}
		return made, refused
	}
	if len(wanted) == 0 {
		return nil, refused
	}
	if err := v.resolve(ctx, refs...); err != nil {
		return refuse(wanted, err)
	}
	ask := slices.Clone(wanted)
	for _, n := range wanted {
		source, _, _ := v.plan(n, true)
		ask = append(ask, source)
	}
	slices.Sort(ask)
	topics, err := c.gw.cluster.Topics(ctx, slices.Compact(ask)...)
	if err != nil {
		return refuse(wanted, err)
	}
	var plans []string
	var sources []string
	for _, n := range wanted {
		w := v.Name(n)
		if t := topics[n]; w != nil && w.Backing == 0 && t.Partitions > 0 { // somebody else has just made its topic
			v.learn(n, t.ID, t.Partitions)
			w = v.Name(n)
		}
		if w != nil && w.Backing > 0 {
			made = append(made, n)
			continue
		}
		if w == nil && topics[n].Partitions > 0 {
			continue // a real topic that happens to have such a name
		}
		source, _, may := v.plan(n, c.gw.cfg.AutoCreate)
		if !may {
			refused[n] = kerr.UnknownTopicOrPartition.Code
			continue
		}
		plans, sources = append(plans, n), append(sources, source)
	}
	// Asked before it is said whether the source exists: who may not know is not told.
	if _, err := c.mayRead(sources...); err != nil {
		return refuse(plans, err)
	}
	for i, n := range plans {
		code := c.auth[sources[i]].code
		if code == kerr.UnknownTopicOrPartition.Code && create && v.mayMakeSource(n) {
			if code, err = c.makeSource(sources[i]); err != nil {
				return refuse(plans[i:], err)
			}
		}
		switch code {
		case 0:
			code = c.makeView(ctx, n)
		case kerr.UnknownTopicOrPartition.Code:
			c.gw.sourceMissing(n, sources[i])
		}
		if code != 0 {
			refused[n] = code
			continue
		}
		made = append(made, n)
	}
	return made, refused
}

// mayMakeSource says whether asking for a view may make its source, as asking
// for an ordinary topic may make that: where the name alone says what the view
// is, and the source is to be no view itself.
func (v *views) mayMakeSource(name string) bool {
	source, _, err := v.asked(name)
	_, configured := v.configured[name]
	return err == nil && !configured && v.Name(name) == nil && !v.wanted(source)
}

// makeSource has the cluster make a source that does not exist, as it would an
// ordinary topic that this client asks for: if it does that, with its own
// defaults and the client's rights. It returns what the cluster answers then;
// Kafka says first that it does not know the topic, and clients ask again.
func (c *conn) makeSource(source string) (int16, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(source)
	req.Topics, req.AllowAutoTopicCreation = append(req.Topics, t), true
	if err := c.setVersion(c.ctx, req, -1); err != nil {
		return 0, err
	}
	resp, err := c.roundTrip(c.ctx, req)
	if err != nil {
		return 0, err
	}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		if t.ErrorCode != 0 {
			return t.ErrorCode, nil
		}
	}
	return c.mayRead(source)
}

// sourceMissing says in the log why a client does not get a view.
func (g *Gateway) sourceMissing(name, source string) {
	if g.often.now("source of "+name, time.Minute) { // clients ask again and again
		g.log.Warn("a client asks for a view whose source does not exist", "view", name, "source", source,
			"cure", "create the topic, or correct the name; the view follows when clients ask again")
	}
}

// makeView makes one view, for a client that may read its source.
func (c *conn) makeView(ctx context.Context, name string) int16 {
	source, partitions, err := c.gw.views.asked(name)
	if err == nil {
		_, err = c.gw.views.Create(ctx, name, source, partitions)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNoSource):
		c.gw.sourceMissing(name, source)
		return kerr.UnknownTopicOrPartition.Code
	}
	c.gw.metrics.viewErrors.Inc()
	if c.gw.often.now("view "+name, time.Minute) { // some clients ask many times a second
		c.gw.log.Warn("a client asked for a view that cannot be made", "view", name, "cause", err)
	}
	if isKafka(err) {
		return kerr.LeaderNotAvailable.Code // retriable: the cause may pass
	}
	return kerr.InvalidTopicException.Code
}

// isKafka reports whether the cluster said no, or did not answer, rather than
// the name being impossible.
func isKafka(err error) bool {
	var ke *kerr.Error
	return errors.As(err, &ke) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
