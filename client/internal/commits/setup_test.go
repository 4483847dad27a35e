package commits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const group = "g"

var halves = []keyrange.Set{{keyrange.OfSlice(0, 2)}, {keyrange.OfSlice(1, 2)}}

// guarded is the Commits of a guarded client.
func guarded(t testing.TB, client func(...kgo.Opt) *kgo.Client, opts ...kgo.Opt) *Commits {
	t.Helper()
	g := new(Guard)
	opts, err := g.Opts(append([]kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return New(client(opts[1:]...), g, group)
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func part(topic string, keys keyrange.Set) Partition {
	return Partition{Topic: topic, Keys: keys, Base: 1}
}

func entry(topic string, keys keyrange.Set, watermark int64, firstLast ...int64) Entry {
	e := Entry{Partition: part(topic, keys), Watermark: watermark}
	for pair := range slices.Chunk(firstLast, 2) {
		e.Ranges = append(e.Ranges, offsets.Range{First: pair[0], Last: pair[1]})
	}
	return e
}

func commit(t testing.TB, c *Commits, entries ...Entry) {
	t.Helper()
	if errs := c.Commit(soon(t), NoMember, entries); errs != nil {
		t.Fatal(errs)
	}
}

// want checks what is committed: "STABLE KEYS OFFSETS KEYS OFFSETS".
func want(t testing.TB, c *Commits, p Partition, text string) {
	t.Helper()
	list, err := c.Fetch(soon(t), []Partition{p})
	if err != nil || list[0].Err != nil {
		t.Fatal(err, list)
	}
	got := []string{fmt.Sprint(list[0].Offset)}
	for _, a := range list[0].Above {
		got = append(got, fmt.Sprint(a.Keys, a.Ranges))
	}
	if s := strings.Join(got, " "); s != text {
		t.Errorf("committed is %q, not %q", s, text)
	}
}

// row is the group's offset of partition 0 as the cluster has it, -1: none.
func row(t testing.TB, w *gatewaytest.World, topic string) int64 {
	t.Helper()
	of, err := kadm.NewClient(w.Direct()).FetchOffsets(context.Background(), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Fatal(err)
	}
	if o, ok := of.Lookup(topic, 0); ok {
		return o.At
	}
	return -1
}

func setRow(t testing.TB, w *gatewaytest.World, topic string, at int64) {
	t.Helper()
	of := make(kadm.Offsets)
	of.Add(kadm.Offset{Topic: topic, At: at, LeaderEpoch: -1})
	if err := kadm.NewClient(w.Direct()).CommitAllOffsets(context.Background(), group, of); err != nil {
		t.Fatal(err)
	}
}
