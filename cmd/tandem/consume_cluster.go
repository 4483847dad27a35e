package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/internal/config"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/internal/view"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// askPause is how long to wait before a question that was not answered is asked again.
const askPause = 200 * time.Millisecond

// createWait is how long a cluster that creates topics may take to create the one for dead letters.
const createWait = 5 * time.Second

// findCluster finds out what is behind --kafka, and returns the client's options for it: as it is when it is a gateway, or when
// nothing is to be shared, otherwise with a gateway in this process.
func findCluster(ctx context.Context, c config.Config, f *consumeCommand, topic string, log *slog.Logger) ([]client.Option, error) {
	hint := orGateway(&c)
	up, err := upstreamConfig(c.Kafka, waitingIn(log))
	if err != nil {
		return nil, err
	}
	credentials := []kgo.Opt{kgo.ClientID("tandem-consume")}
	if up.TLS != nil {
		credentials = append(credentials, kgo.DialTLSConfig(up.TLS))
	}
	if up.SASL != nil {
		credentials = append(credentials, kgo.SASL(up.SASL))
	}
	cl, err := kgo.NewClient(append(credentials, kgo.SeedBrokers(up.Bootstrap...))...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Limits.StartTimeout)
	defer cancel()
	if err := up.Await(ctx); err != nil { // it says at once what is wrong
		return nil, fmt.Errorf("%w%s", err, hint)
	}
	features, err := findFeatures(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("no answer from %s: %w", up.Addresses(), err)
	}
	isGateway := features != tandemmsg.Features{}
	if f.noOrder && isGateway && !f.inProcess && !features.CooperativeFetch {
		return nil, fmt.Errorf("--no-order: the gateway behind %s has cooperative.fetch.enable or individual.commit.enable off, or is too old for it: "+
			"turn them on there, or leave --no-order out", up.Addresses())
	}
	if err := checkTopics(ctx, cl, up, f, topic, isGateway, log); err != nil {
		return nil, err
	}
	opts := []client.Option{client.Bootstrap(up.Bootstrap...), client.KgoOpts(credentials...)}
	switch {
	case f.inProcess || f.shares() && !isGateway:
		log.Info("consuming with a gateway in this process", "kafka", up.Addresses())
		opts = append(opts, client.InProcess(client.CacheBytes(c.Limits.KeyRangeHashingBytes)))
	case isGateway:
		log.Info("consuming through a gateway", "kafka", up.Addresses())
	default:
		log.Info("consuming from a cluster", "kafka", up.Addresses())
	}
	return opts, nil
}

// findFeatures asks until there is an answer, or ctx ends.
func findFeatures(ctx context.Context, cl *kgo.Client) (tandemmsg.Features, error) {
	for {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "tandem", "1"
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			return tandemmsg.ReadFeatures(resp), nil
		}
		var ke *kerr.Error
		if errors.As(err, &ke) && !ke.Retriable || !pause(ctx, askPause) {
			return tandemmsg.Features{}, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// checkTopics looks for what would make the consumer wait for ever without a word.
func checkTopics(ctx context.Context, cl *kgo.Client, up upstream.Config, f *consumeCommand, topic string, isGateway bool, log *slog.Logger) error {
	err := findTopic(ctx, cl, topic, false)
	_, _, asView := view.ParseName(topic)
	switch {
	case err == kerr.InvalidTopicException && asView:
		return fmt.Errorf("%s cannot be a view: the number at its end must be the number of its source's partitions times a power of two", topic)
	case err != nil && err != kerr.UnknownTopicOrPartition: // the client waits for that, and says so
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	if !isGateway || f.inProcess {
		if err := refuseView(ctx, cl, up, topic, err != nil, log); err != nil {
			return err
		}
	}
	if f.deadLetter == "" {
		return nil
	}
	err = findTopic(ctx, cl, f.deadLetter, true)
	// A cluster that creates topics says that there is none, and creates it then. A new topic has no leader at once.
	for asked := time.Now(); kerr.IsRetriable(err) && (err != kerr.UnknownTopicOrPartition || time.Since(asked) < createWait) && pause(ctx, askPause); {
		err = findTopic(ctx, cl, f.deadLetter, false)
	}
	switch err {
	case nil:
		return nil
	case kerr.UnknownTopicOrPartition:
		return fmt.Errorf("--dead-letter: topic %s does not exist, and the cluster has not created it within %v: create it", f.deadLetter, createWait)
	}
	return fmt.Errorf("--dead-letter: topic %s: %w", f.deadLetter, err)
}

// refuseView refuses a view where no gateway shows its records: without one its topic is empty.
func refuseView(ctx context.Context, cl *kgo.Client, up upstream.Config, topic string, missing bool, log *slog.Logger) error {
	refused := fmt.Errorf("%s is a view, and only a gateway shows its records: name the gateway's address with --kafka, or consume the view's source with --key-order or --no-order", topic)
	if _, _, ok := view.ParseName(topic); ok && missing {
		return refused
	}
	if findTopic(ctx, cl, upstream.DefinitionsTopic, false) != nil {
		return nil // there are no views
	}
	admin, err := gateway.OpenAdmin(ctx, up, log)
	if err != nil {
		log.Warn("views cannot be looked up; the topic is taken for one that stores records", "topic", topic, "error", err)
		return nil
	}
	defer admin.Close()
	views, err := admin.List(ctx)
	if err != nil {
		log.Warn("views cannot be looked up; the topic is taken for one that stores records", "topic", topic, "error", err)
		return nil
	}
	if slices.ContainsFunc(views, func(v *gateway.View) bool { return v.Name == topic }) {
		return refused
	}
	return nil
}

// findTopic asks for a topic, which the cluster may create where it does that.
func findTopic(ctx context.Context, cl *kgo.Client, topic string, create bool) error {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics, req.AllowAutoTopicCreation = append(req.Topics, t), create
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("%d topics in the answer", len(resp.Topics))
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}
