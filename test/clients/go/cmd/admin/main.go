// admin does the driver's few administration steps.
//
//	admin --bootstrap B recreate TOPIC PARTITIONS   delete the topic if it exists, create it
//	admin --bootstrap B describe TOPIC              print {"partitions":N,"start":{...},"end":{...}}
//	admin --bootstrap B committed GROUP TOPIC       print {"partition":offset,...} as committed by the group
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
	"github.com/twmb/franz-go/pkg/kgo"
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
		kit.Fatal("usage: admin --bootstrap B recreate|describe|committed|members ...")
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
	case "committed":
		offsets, err := a.FetchOffsets(ctx, args[1])
		check(err)
		out := map[int32]int64{}
		offsets.Each(func(o kadm.OffsetResponse) {
			if o.Topic == args[2] {
				out[o.Partition] = o.At
			}
		})
		print(out)
	case "members":
		groups, err := a.DescribeGroups(ctx, args[1])
		check(err)
		print(map[string]any{"state": groups[args[1]].State, "members": len(groups[args[1]].Members), "protocol": groups[args[1]].Protocol})
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
