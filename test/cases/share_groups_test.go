package cases

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Share groups work on a topic through the gateway as without it: two members, of which one gives records back. A share group of a view
// would read the empty backing topic: it is refused, with the reason.
func TestShareGroupsPassThrough(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		source, view := e.source(t, 2, 8)
		group := harness.Name(t, "share")
		ctx := harness.Context(t, time.Minute)
		producer := harness.Client(t, e.gateway.Bootstrap)
		readFromEarliest(t, producer, group)
		const records = 200
		for i := range records {
			producer.Produce(ctx, &kgo.Record{Topic: source, Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "%d", i)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		if err := producer.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		done, given := make(chan string, 10*records), make(chan string, records)
		for member := range 2 {
			c := harness.Client(t, e.gateway.Bootstrap, kgo.ConsumeTopics(source), kgo.ShareGroup(group), kgo.ShareMaxRecords(20))
			go func() {
				for {
					fs := c.PollFetches(ctx)
					if fs.IsClientClosed() || ctx.Err() != nil {
						return
					}
					fs.EachRecord(func(r *kgo.Record) {
						if member == 0 && len(given) < 20 {
							given <- string(r.Value)
							r.Ack(kgo.AckRelease)
							return
						}
						r.Ack(kgo.AckAccept)
						done <- string(r.Value)
					})
				}
			}()
		}
		seen := map[string]bool{}
		for len(seen) < records {
			select {
			case v := <-done:
				seen[v] = true
			case <-ctx.Done():
				t.Fatalf("%d of %d records were accepted", len(seen), records)
			}
		}

		// The view must exist to be refused as one, or look like one that can be made.
		if _, err := harness.AdminClient(t, e.gateway.Bootstrap).Metadata(ctx, view); err != nil {
			t.Fatal(err)
		}
		beat := kmsg.NewPtrShareGroupHeartbeatRequest()
		beat.GroupID, beat.MemberID, beat.SubscribedTopicNames = harness.Name(t, "share"), "AAAAAAAAAAAAAAAAAAAAAA", []string{view}
		resp, err := beat.RequestWith(ctx, harness.Client(t, e.gateway.Bootstrap))
		if err != nil {
			t.Fatal(err)
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); !errors.Is(err, kerr.InvalidRequest) || resp.ErrorMessage == nil {
			t.Errorf("a share group of a view: %v", err)
		}
	})
}

// readFromEarliest has a share group read what is there already.
func readFromEarliest(t *testing.T, c *kgo.Client, group string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	set.Name, set.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	r.Configs = append(r.Configs, set)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(harness.Context(t, 20*time.Second), c)
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
