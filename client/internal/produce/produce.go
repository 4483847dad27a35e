// Package produce writes records and waits for them no longer than a context.
package produce

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Sync writes records and waits until all are acknowledged, or ctx ends. kgo's ProduceSync waits beyond that: it does not fail a record that a broker may have,
// however long that broker says nothing, since what comes after it must not come before it. After an error each record may be written, then or later, but before those of a later call.
func Sync(ctx context.Context, client *kgo.Client, records ...*kgo.Record) error {
	acks := make(chan error, len(records)) // nobody may take them any more
	for _, r := range records {
		client.Produce(ctx, r, func(_ *kgo.Record, err error) { acks <- err })
	}
	var first error
	for range records {
		select {
		case err := <-acks:
			if first == nil {
				first = err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return first
}
