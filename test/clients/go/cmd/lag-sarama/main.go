// lag-sarama prints the lag that an autoscaler sees, in the way of KEDA's Kafka scaler: for each partition ListOffsets(latest) minus the
// group's OffsetFetch, by sarama's cluster admin; where nothing is committed, all that the partition has counts.
//
//	lag-sarama --bootstrap B --group G --topic T    print {"lag":sum,"partitions":{"0":{"end":N,"committed":N,"lag":N},...}}
package main

import (
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"strings"

	"github.com/tandem-kafka/tandem/test/clients/go/kit"

	"github.com/IBM/sarama"
)

type partition struct {
	End       int64 `json:"end"`
	Committed int64 `json:"committed"`
	Lag       int64 `json:"lag"`
}

func main() {
	bootstrap := flag.String("bootstrap", "127.0.0.1:9092", "broker list")
	group := flag.String("group", "", "consumer group")
	topic := flag.String("topic", "", "topic or view")
	flag.Parse()
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	client, err := sarama.NewClient(strings.Split(*bootstrap, ","), c)
	check(err)
	admin, err := sarama.NewClusterAdminFromClient(client)
	check(err)
	numbers, err := client.Partitions(*topic)
	check(err)
	offsets, err := admin.ListConsumerGroupOffsets(*group, map[string][]int32{*topic: numbers})
	check(err)
	sum, partitions := int64(0), map[string]partition{}
	for _, n := range numbers {
		block := offsets.GetBlock(*topic, n)
		if block == nil {
			kit.Fatal("no answer for partition %d", n)
		}
		if block.Err != sarama.ErrNoError {
			kit.Fatal("partition %d: %v", n, block.Err)
		}
		end, err := client.GetOffset(*topic, n, sarama.OffsetNewest)
		check(err)
		p := partition{End: end, Committed: block.Offset, Lag: end - block.Offset}
		if block.Offset < 0 {
			p.Lag = end
		}
		sum += p.Lag
		partitions[strconv.Itoa(int(n))] = p
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"lag": sum, "partitions": partitions}))
	check(admin.Close())
}

func check(err error) {
	if err != nil {
		kit.Fatal("%v", err)
	}
}
