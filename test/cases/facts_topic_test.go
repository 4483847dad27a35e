package cases

import (
	"bytes"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const offsetsTopic = "__consumer_offsets"

// The topic of individual commits is made as Kafka made the one of committed offsets, and a group is in the same partition of both.
func TestFactsTopicOnKafka(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	k := cluster(t)
	ctx := harness.Context(t, time.Minute)
	c, err := upstream.Open(ctx, upstream.Config{Bootstrap: strings.Split(k.Bootstrap, ",")}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	facts := c.Facts()
	defer facts.Close()
	made, err := facts.Create(ctx)
	if err != nil {
		t.Fatal(err)
	}
	admin := harness.AdminClient(t, k.Bootstrap)
	var model, topic kadm.TopicDetail
	await(t, 20*time.Second, func() string {
		topics, err := admin.ListTopicsWithInternal(ctx, offsetsTopic, icommit.TopicName)
		if err != nil {
			return err.Error()
		}
		if model, topic = topics[offsetsTopic], topics[icommit.TopicName]; len(model.Partitions) == 0 || len(topic.Partitions) == 0 {
			return "both topics"
		}
		return ""
	})
	if len(topic.Partitions) != len(model.Partitions) || int(made.Partitions) != len(model.Partitions) {
		t.Errorf("%d partitions, %s has %d", len(topic.Partitions), offsetsTopic, len(model.Partitions))
	}
	for p, d := range model.Partitions {
		if got := topic.Partitions[p].Replicas; !slices.Equal(got, d.Replicas) {
			t.Errorf("partition %d is assigned to %v, that of %s to %v", p, got, offsetsTopic, d.Replicas)
		}
	}
	configs, err := admin.DescribeTopicConfigs(ctx, offsetsTopic, icommit.TopicName)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]map[string]string{}
	for _, of := range configs {
		settings[of.Name] = map[string]string{}
		for _, c := range of.Configs {
			settings[of.Name][c.Key] = c.MaybeValue()
		}
	}
	for _, key := range []string{"cleanup.policy", "min.insync.replicas", "segment.bytes"} {
		if got, want := settings[icommit.TopicName][key], settings[offsetsTopic][key]; got != want || got == "" {
			t.Errorf("%s is %q, that of %s %q", key, got, offsetsTopic, want)
		}
	}

	orders := harness.Name(t, "orders")
	harness.CreateTopic(t, k.Bootstrap, orders, 1)
	for _, group := range []string{harness.Name(t, "workers"), harness.Name(t, "größe-注文"), harness.Name(t, "😀"), harness.Name(t, "b")} {
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: orders, At: 1, LeaderEpoch: -1})
		await(t, 20*time.Second, func() string {
			if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
				return err.Error()
			}
			return ""
		})
		partition := record.PartitionOf(group, made.Partitions)
		reader := harness.Client(t, k.Bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{offsetsTopic: {partition: kgo.NewOffset().AtStart()}}))
		for found := false; !found; {
			reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { found = found || bytes.Contains(r.Key, []byte(group)) })
			if ctx.Err() != nil {
				t.Fatalf("the offsets of %s are not in partition %d", group, partition)
			}
		}
	}
}
