package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// load fills the topic and returns the ledger that expects its records. A
// record's value is its number among those of its key.
func load(ctx context.Context, client *kgo.Client, opts Options) (*ledger, error) {
	l := newLedger()
	rnd := rand.New(rand.NewPCG(1, 0)) // the same order of keys in every demo
	records := make([]*kgo.Record, opts.Records)
	for i := range records {
		key := fmt.Sprintf("customer-%d", rnd.IntN(opts.Keys))
		if i < opts.Keys {
			key = fmt.Sprintf("customer-%d", i)
		}
		records[i] = &kgo.Record{Topic: opts.Topic, Key: []byte(key), Value: strconv.AppendInt(nil, int64(l.expect(key)), 10)}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, fmt.Errorf("filling topic %s: %w", opts.Topic, err)
	}
	return l, nil
}
