package embedded

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/test/harness"
)

const childEnv = "TANDEM_EMBEDDED_CHILD" // DIR|PORT: be an engine and nothing else

func TestMain(m *testing.M) {
	if dir, port, ok := strings.Cut(os.Getenv(childEnv), "|"); ok {
		n, _ := strconv.Atoi(port)
		if _, err := Open(Options{Dir: dir, Port: n}); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println("ready")
		select {} // until it is killed
	}
	os.Exit(m.Run())
}

func startChild(t *testing.T, dir string, port int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d", childEnv, dir, port))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the engine says %q", line)
	}
	return cmd
}

func kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// The process is killed at random moments while one idempotent producer lives
// on, offsets are committed and records deleted. Nothing acknowledged may be
// missing, nothing may be there twice or out of order.
// TANDEM_SEED and TANDEM_ROUNDS repeat and lengthen it.
func TestKill9Rounds(t *testing.T) {
	seed, rounds := uint64(time.Now().UnixNano()), 8
	if s, err := strconv.ParseUint(os.Getenv("TANDEM_SEED"), 10, 64); err == nil {
		seed = s
	}
	if n, err := strconv.Atoi(os.Getenv("TANDEM_ROUNDS")); err == nil {
		rounds = n
	} else if testing.Short() {
		rounds = 3
	}
	killRounds(t, seed, rounds)
}

func TestSoakKill9(t *testing.T) {
	more := harness.Until(harness.Soak(t, 5))
	for more() {
		killRounds(t, uint64(time.Now().UnixNano()), 20)
	}
}

func killRounds(t *testing.T, seed uint64, rounds int) {
	t.Logf("TANDEM_SEED=%d TANDEM_ROUNDS=%d", seed, rounds)
	rnd := rand.New(rand.NewPCG(seed, 0))

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir := t.TempDir()
	child := startChild(t, dir, port)

	newClient := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append([]kgo.Opt{
			kgo.SeedBrokers(fmt.Sprintf("127.0.0.1:%d", port)),
			kgo.AllowAutoTopicCreation(),
			kgo.MetadataMinAge(50 * time.Millisecond),
			kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
			kgo.FetchMaxWait(50 * time.Millisecond),
		}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		return cl
	}
	cl := newClient(kgo.ProducerBatchMaxBytes(2048), kgo.ProducerLinger(0))
	ctx, stop := context.WithCancel(t.Context())
	var sent, acked, committedTo, deletedTo atomic.Int64
	done := make(chan error, 3)
	go func() { // the producer
		for ctx.Err() == nil {
			v := fmt.Sprintf("%d %s", sent.Add(1)-1, strings.Repeat("x", 300))
			cl.Produce(context.Background(), &kgo.Record{Topic: "orders", Value: []byte(v)}, func(r *kgo.Record, err error) {
				if err == nil {
					acked.Store(max(acked.Load(), r.Offset+1))
				}
			})
			if sent.Load()-acked.Load() > 500 {
				time.Sleep(time.Millisecond) // back-pressure
			}
		}
		flushCtx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		done <- cl.Flush(flushCtx)
	}()
	side := newClient()
	each := func(fn func(adm *kadm.Client, os kadm.Offsets, to int64) bool, up *atomic.Int64, share int64) {
		adm := kadm.NewClient(side)
		for ctx.Err() == nil {
			to := acked.Load() / share
			if to <= up.Load() {
				time.Sleep(time.Millisecond)
				continue
			}
			os := kadm.Offsets{}
			os.AddOffset("orders", 0, to, -1)
			if fn(adm, os, to) {
				up.Store(to)
			}
		}
		done <- nil
	}
	go each(func(adm *kadm.Client, os kadm.Offsets, _ int64) bool {
		return adm.CommitAllOffsets(ctx, "g", os) == nil
	}, &committedTo, 1)
	go each(func(adm *kadm.Client, os kadm.Offsets, _ int64) bool {
		resp, err := adm.DeleteRecords(ctx, os)
		return err == nil && resp.Error() == nil
	}, &deletedTo, 2)

	for nothing := testContext(t); committedTo.Load() == 0 || deletedTo.Load() == 0; time.Sleep(time.Millisecond) { // there is something to lose
		if nothing.Err() != nil {
			t.Fatal("nothing is committed, or deleted")
		}
	}
	for range rounds {
		time.Sleep(time.Duration(50+rnd.IntN(350)) * time.Millisecond)
		kill(child)
		child = startChild(t, dir, port)
	}
	stop()
	for range 3 {
		if err := <-done; err != nil {
			t.Fatalf("the producer: %v", err)
		}
	}
	cl.Close()
	defer side.Close()
	defer kill(child)

	if got := committed(t, side, "g", "orders"); got < committedTo.Load() {
		t.Errorf("committed offset %d, acknowledged was %d", got, committedTo.Load())
	}
	start, end := offsets(t, side, "orders")
	if start < deletedTo.Load() {
		t.Errorf("log start %d, deleted was up to %d", start, deletedTo.Load())
	}
	if end != sent.Load() {
		t.Errorf("log end %d, sent were %d", end, sent.Load())
	}
	reader := newClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(start)}}))
	defer reader.Close()
	for next := start; next < end; {
		fetches := reader.PollFetches(testContext(t))
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if n, _, _ := strings.Cut(string(r.Value), " "); n != fmt.Sprint(next) || r.Offset != next {
				t.Fatalf("offset %d holds record %s, want %d", r.Offset, n, next)
			}
			next++
		})
	}
	t.Logf("%d records, committed %d, log start %d", end, committedTo.Load(), start)
}
