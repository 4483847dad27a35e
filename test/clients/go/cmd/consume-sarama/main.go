// consume-sarama: the kit's consumer for IBM/sarama.
// Idiom: ConsumerGroup with one ConsumeClaim goroutine per partition, MarkMessage after the work, Commit at a bounded interval and in Cleanup.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/tandem-kafka/tandem/test/clients/go/kit"

	"github.com/IBM/sarama"
)

type handler struct{ k *kit.Kit }

func (h handler) Setup(s sarama.ConsumerGroupSession) error {
	h.k.Event("assigned", s.Claims()[h.k.Topic])
	return nil
}

func (h handler) Cleanup(s sarama.ConsumerGroupSession) error {
	s.Commit()
	h.k.Event("revoked", s.Claims()[h.k.Topic])
	return nil
}

func (h handler) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	marked, committed := 0, time.Now()
	for {
		select {
		case m, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			if s.Context().Err() != nil || h.k.Stopped() {
				return nil
			}
			h.k.Process(m.Partition, m.Offset, m.Key, m.Value)
			s.MarkMessage(m, "")
			if marked++; marked >= 100 || time.Since(committed) > 500*time.Millisecond {
				s.Commit()
				marked, committed = 0, time.Now()
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func main() {
	k := kit.Start("sarama")
	if os.Getenv("DEBUG") != "" {
		sarama.Logger = log.New(os.Stderr, "", log.Lmicroseconds)
	}
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Session.Timeout = k.Session
	c.Consumer.Group.Heartbeat.Interval = k.Session / 6
	c.Consumer.Return.Errors = true
	if k.ClientID != "" {
		c.ClientID = k.ClientID
	}
	if k.ReadCommitted() {
		c.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	if k.Assignor == "range" {
		c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	}
	group, err := sarama.NewConsumerGroup(k.Brokers(), k.Group, c)
	if err != nil {
		kit.Fatal("%v", err)
	}
	go func() {
		for err := range group.Errors() {
			kit.Log("%v", err)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-k.Stopping(); cancel() }()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{k.Topic}, handler{k}); err != nil && !errors.Is(err, context.Canceled) {
			kit.Log("consume: %v", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	if err := group.Close(); err != nil {
		kit.Log("close: %v", err)
	}
}
