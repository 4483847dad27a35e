package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/bench/peers"
)

// run is what one turn of one side showed.
type run struct {
	seconds float64
	bytes   float64 // of keys and values, or how many there were of what is counted
	client  float64 // CPU seconds of this process
	server  float64 // CPU seconds of the gateway, 0: none
	broker  float64 // CPU seconds of the broker
	read    float64 // bytes the gateway read with read(2)
}

func (r run) mbPerSecond() float64 { return r.bytes / r.seconds / 1e6 }
func (r run) serverPerGB() float64 { return r.server / r.bytes * 1e9 }
func (r run) clientPerGB() float64 { return r.client / r.bytes * 1e9 }
func (r run) brokerPerGB() float64 { return r.broker / r.bytes * 1e9 }

// idle is how many of the machine's cores had nothing to do.
func (r run) idle() float64 {
	return float64(runtime.NumCPU()) - (r.client+r.server+r.broker)/r.seconds
}

func (r run) String() string {
	if r.bytes < 1e6 { // it counted something else
		return fmt.Sprintf("%6.0f a second  gateway %.0f µs  client %.0f µs", r.bytes/r.seconds, r.server/r.bytes*1e6, r.client/r.bytes*1e6)
	}
	return fmt.Sprintf("%6.0f MB/s  CPU s/GB: gateway %.2f  client %.2f  broker %.2f; idle %.2f cores", r.mbPerSecond(), r.serverPerGB(), r.clientPerGB(), r.brokerPerGB(), r.idle())
}

func ownCPU() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// measure times work, which returns the bytes it moved.
func (b *bench) measure(p *process, work func() (float64, error)) (r run, err error) {
	client, broker := ownCPU(), peers.CPU(b.kafka.pid)
	var server, read float64
	if p != nil {
		server, read = p.cpu(), p.read()
	}
	start := time.Now()
	r.bytes, err = work()
	r.seconds, r.client = time.Since(start).Seconds(), ownCPU()-client
	r.broker = peers.CPU(b.kafka.pid) - broker
	if p != nil {
		r.server, r.read = p.cpu()-server, p.read()-read
	}
	return r, err
}

// share returns the partitions of member m of n, dealt out in turn.
func dealt(partitions, m, n int) map[int32]kgo.Offset {
	mine := map[int32]kgo.Offset{}
	for p := m; p < partitions; p += n {
		mine[int32(p)] = kgo.NewOffset().AtStart()
	}
	return mine
}

// consume reads a topic from its start with members consumers, which share out its partitions without a group, until
// they have records records together.
func (b *bench) consume(addr, topic string, partitions, members, records int, opts ...kgo.Opt) (bytes float64, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute)
	defer cancel()
	var got, sum atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	for m := range members {
		cl, err := client(addr, append([]kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: dealt(partitions, m, members)})}, opts...)...)
		if err != nil {
			return 0, err
		}
		defer cl.Close()
		wg.Go(func() {
			for ctx.Err() == nil && got.Load() < int64(records) {
				n, size := int64(0), int64(0)
				fetches := cl.PollFetches(ctx)
				fetches.EachError(func(_ string, p int32, e error) {
					if ctx.Err() == nil {
						once.Do(func() { err = fmt.Errorf("consuming %s-%d: %w", topic, p, e) })
						cancel()
					}
				})
				fetches.EachRecord(func(r *kgo.Record) {
					n++
					size += int64(len(r.Key) + len(r.Value))
				})
				sum.Add(size)
				if got.Add(n) >= int64(records) {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	if got.Load() < int64(records) {
		return 0, fmt.Errorf("consuming %s at %s: got %d of %d records: %w", topic, addr, got.Load(), records, context.Cause(ctx))
	}
	return float64(sum.Load()), nil
}

// produce writes n values of size bytes as fast as it can.
func (b *bench) produce(addr, topic string, n, size int, opts ...kgo.Opt) (float64, error) {
	cl, err := client(addr, append([]kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(20_000), kgo.DefaultProduceTopic(topic)}, opts...)...)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	r := rand.New(rand.NewPCG(3, 4))
	v := value(r, size)
	var failed atomic.Value
	for range n {
		cl.Produce(b.ctx, &kgo.Record{Value: v}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(err)
			}
		})
	}
	if err := cl.Flush(b.ctx); err != nil {
		return 0, err
	}
	if err, ok := failed.Load().(error); ok {
		return 0, err
	}
	return float64(n * size), nil
}

// side is one of the things that are compared.
type side struct {
	name string
	run  func() (run, error)
}

// turns runs the sides in turns, b.rounds times and once more to warm up, and returns each one's runs. Every other round goes
// backward, so that no side always follows the same one.
func (b *bench) turns(what string, sides ...side) ([][]run, error) {
	all := make([][]run, len(sides))
	for round := range b.rounds + 1 {
		for i := range sides {
			if round%2 == 1 {
				i = len(sides) - 1 - i
			}
			r, err := sides[i].run()
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", what, sides[i].name, err)
			}
			if round == 0 {
				continue
			}
			b.progress("%s %d/%d %-24s %v", what, round, b.rounds, sides[i].name, r)
			all[i] = append(all[i], r)
		}
	}
	return all, nil
}

func pick(runs []run, f func(run) float64) []float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, f(r))
	}
	return v
}
