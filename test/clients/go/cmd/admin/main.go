// admin does the driver's few administration steps.
//
//	admin --bootstrap B recreate TOPIC PARTITIONS   delete the topic if it exists, create it
//	admin --bootstrap B describe TOPIC              print {"partitions":N,"start":{...},"end":{...}}
//	admin --bootstrap B committed GROUP TOPIC       print {"partition":offset,...} as committed by the group
//	admin --bootstrap B session GROUP MS            set the session timeout of a KIP-848 group, where the cluster has such a setting
//	admin --bootstrap B members GROUP               print {"state":...,"members":N,"protocol":assignor}
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-kafka/tandem/test/clients/go/kit"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func main() {
	bootstrap := flag.String("bootstrap", "127.0.0.1:9092", "broker list")
	flag.Parse()
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(*bootstrap, ",")...))
	check(err)
	defer c.Close()
	ctx, stop := context.WithTimeout(context.Background(), 60*time.Second)
	defer stop()
	a, args := kadm.NewClient(c), flag.Args()
	if len(args) < 2 {
		kit.Fatal("usage: admin --bootstrap B recreate|describe|committed|session|members ...")
	}
	switch args[0] {
	case "recreate":
		partitions, err := strconv.Atoi(args[2])
		check(err)
		topics, err := a.ListTopics(ctx, args[1])
		check(err)
		old := topics[args[1]].ID
		if topics.Has(args[1]) {
			_, err := a.DeleteTopic(ctx, args[1])
			check(err)
		}
		for {
			_, err = a.CreateTopic(ctx, int32(partitions), -1, nil, args[1])
			if err == nil {
				break
			}
			if ctx.Err() != nil || !strings.Contains(err.Error(), "TOPIC_ALREADY_EXISTS") {
				check(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		for ctx.Err() == nil { // wait until the broker shows the new topic and every partition has a leader
			topics, err = a.ListTopics(ctx, args[1])
			check(err)
			ready := 0
			for _, p := range topics[args[1]].Partitions {
				if p.Leader >= 0 && p.Err == nil {
					ready++
				}
			}
			if ready == partitions && topics[args[1]].ID != old {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		check(ctx.Err())
	case "describe":
		starts, err := a.ListStartOffsets(ctx, args[1])
		check(err)
		ends, err := a.ListEndOffsets(ctx, args[1])
		check(err)
		start, end := map[int32]int64{}, map[int32]int64{}
		starts.Each(func(o kadm.ListedOffset) { check(o.Err); start[o.Partition] = o.Offset })
		ends.Each(func(o kadm.ListedOffset) { check(o.Err); end[o.Partition] = o.Offset })
		print(map[string]any{"partitions": len(end), "start": start, "end": end})
	case "committed": // asked for by name: a view whose offsets are committed individually has no row of its own, and is in no list
		topics, err := a.ListTopics(ctx, args[2])
		check(err)
		req, group, topic := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.TopicID, topic.Partitions = args[2], topics[args[2]].ID, topics[args[2]].Partitions.Numbers()
		group.Group, group.Topics = args[1], append(group.Topics, topic)
		req.Groups = append(req.Groups, group)
		resp, err := req.RequestWith(ctx, c)
		check(err)
		check(kerr.ErrorForCode(resp.Groups[0].ErrorCode))
		out := map[int32]int64{}
		for _, p := range resp.Groups[0].Topics[0].Partitions {
			check(kerr.ErrorForCode(p.ErrorCode))
			if p.Offset >= 0 {
				out[p.Partition] = p.Offset
			}
		}
		print(out)
	case "session":
		ms, err := strconv.Atoi(args[2])
		check(err)
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		group := kmsg.NewIncrementalAlterConfigsRequestResource()
		group.ResourceType, group.ResourceName = kmsg.ConfigResourceTypeGroupConfig, args[1]
		for name, value := range map[string]int{"consumer.session.timeout.ms": ms, "consumer.heartbeat.interval.ms": ms / 6} {
			set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			set.Name, set.Value = name, kmsg.StringPtr(strconv.Itoa(value))
			group.Configs = append(group.Configs, set)
		}
		req.Resources = append(req.Resources, group)
		if resp, err := req.RequestWith(ctx, c); err != nil || kerr.ErrorForCode(resp.Resources[0].ErrorCode) != nil {
			kit.Log("session of %s: %v %+v", args[1], err, resp) // an older cluster: its own setting holds
		}
	case "members":
		groups, err := a.DescribeGroups(ctx, args[1])
		check(err)
		g := groups[args[1]]
		out := map[string]any{"state": g.State, "members": len(g.Members), "protocol": g.Protocol}
		if next, err := a.DescribeConsumerGroups(ctx, args[1]); err == nil && next[args[1]].Err == nil {
			out = map[string]any{"state": next[args[1]].State, "members": len(next[args[1]].Members), "protocol": "consumer"}
		}
		print(out)
	default:
		kit.Fatal("unknown command %q", args[0])
	}
}

func print(v any) { check(json.NewEncoder(os.Stdout).Encode(v)) }

func check(err error) {
	if err != nil {
		kit.Fatal("%v", err)
	}
}
