package harness

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaConfig says what cluster a test needs. It can be compared: equal configs share a cluster in SharedKafka.
type KafkaConfig struct {
	Brokers    int    // default 1
	Version    string // default: the version in test/kafka/pom.xml
	Properties string // more settings of the brokers, in Java's properties format
	IDs        string // broker ids, separated by spaces; one more than Brokers is the id of the broker that Add starts. Default 1, 2, ...
	Users      string // name:password, separated by spaces. Not empty: a secured cluster, whose super user is "admin"; see Kafka.SASL
	Heap       string // of each broker, default 320m
}

// Kafka is a running cluster.
type Kafka struct {
	Bootstrap string // HOST:PORT list of the plain listeners
	SASL      string // HOST:PORT list of the SASL_PLAINTEXT listeners; empty unless secured
	SASLTLS   string // HOST:PORT list of the SASL_SSL listeners; empty unless secured
	CA        string // PEM file of the authority that signed the brokers' certificates; empty unless secured
	Dir       string // folder with node1/server.log and so on
	config    KafkaConfig
}

// StartKafka starts a cluster of its own for one test and stops it at the end.
func StartKafka(t testing.TB, c KafkaConfig) *Kafka {
	t.Helper()
	k, err := startKafka(t, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			k.dump(t)
		}
		k.stop()
	})
	return k
}

var shared struct {
	sync.Mutex
	clusters map[KafkaConfig]*sharedKafka
}

type sharedKafka struct {
	*Kafka
	users int // tests that have not ended
	idle  *time.Timer
}

// idleFor is how long a shared cluster runs on for nobody. Brokers without work take 4 to 7 % of a processor each, with what they tell each other, and a start costs
// as much as a minute of that.
const idleFor = time.Minute

// SharedKafka returns a cluster that all tests of the package with an equal config share. It is stopped when no test has used it for a while, or by Main. Such tests
// use topic and group names of their own ([Name]) and leave the brokers running.
func SharedKafka(t testing.TB, c KafkaConfig) *Kafka {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	k := shared.clusters[c]
	if k == nil {
		started, err := startKafka(t, c)
		if err != nil {
			t.Fatal(err)
		}
		k = &sharedKafka{Kafka: started}
		if shared.clusters == nil {
			shared.clusters = map[KafkaConfig]*sharedKafka{}
		}
		shared.clusters[c] = k
	}
	if k.users++; k.idle != nil {
		k.idle.Stop()
	}
	t.Cleanup(func() {
		if t.Failed() {
			k.dump(t)
		}
		shared.Lock()
		defer shared.Unlock()
		if k.users--; k.users == 0 {
			k.idle = time.AfterFunc(idleFor, func() {
				shared.Lock()
				defer shared.Unlock()
				if k.users == 0 && shared.clusters[c] == k {
					delete(shared.clusters, c)
					k.stop()
				}
			})
		}
	})
	return k.Kafka
}

// Main runs a package's tests, and then stops the clusters that they shared. It is called by TestMain. Tests often wait, so that some more than
// there are processors run side by side (-parallel says otherwise); those that do not call t.Parallel run alone, before them.
func Main(m *testing.M, more int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(runtime.GOMAXPROCS(0)+more))
	}
	debug.SetGCPercent(400) // memory is not what is scarce
	code := m.Run()
	shared.Lock() // for ever: nothing is to be stopped twice
	for _, k := range shared.clusters {
		k.stop()
	}
	os.Exit(code)
}

func startKafka(t testing.TB, c KafkaConfig) (*Kafka, error) {
	Need(t, "bash", "java", "mvn")
	c.Brokers = max(c.Brokers, 1)
	if c.Heap == "" {
		c.Heap = "320m"
	}
	dir, err := os.MkdirTemp("", "tandem-kafka-")
	if err != nil {
		return nil, err
	}
	reap("+d %s", dir)
	k := &Kafka{Dir: dir, config: c}
	files := map[string]string{"extra.properties": c.Properties + "\n"}
	if c.IDs != "" {
		files["ids"] = strings.ReplaceAll(c.IDs, " ", "\n") + "\n"
	}
	if c.Users != "" {
		if err := secureFiles(dir, c.Users); err != nil {
			return nil, err
		}
		k.CA = filepath.Join(dir, "secure", "ca.pem")
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	port := Ports(t, 4*(c.Brokers+1))
	out, err := k.script("start", dir, strconv.Itoa(c.Brokers), strconv.Itoa(port))
	if err != nil {
		k.stop()
		return nil, err
	}
	k.Bootstrap = out
	if c.Users != "" {
		k.SASL, k.SASLTLS = shift(out, 2), shift(out, 3)
	}
	if err := k.await(c.Brokers); err != nil {
		k.dump(t)
		k.stop()
		return nil, err
	}
	return k, nil
}

// shift adds n to each port of a bootstrap list.
func shift(list string, n int) string {
	var out []string
	for _, a := range strings.Split(list, ",") {
		i := strings.LastIndexByte(a, ':')
		port, _ := strconv.Atoi(a[i+1:])
		out = append(out, fmt.Sprintf("%s:%d", a[:i], port+n))
	}
	return strings.Join(out, ",")
}

// await waits until the cluster shows so many brokers.
func (k *Kafka) await(brokers int) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(k.Bootstrap, ",")...))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		list, err := kadm.NewClient(c).ListBrokers(ctx)
		if err == nil && len(list) >= brokers {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("kafka: %d of %d brokers: %w", len(list), brokers, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (k *Kafka) script(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(Root(), "test", "kafka", "kafka-cluster"), args...)
	cmd.Env = append(os.Environ(), "KAFKA_HEAP="+k.config.Heap, "KAFKA_READY=port", "KAFKA_TIER=1")
	if k.config.Version != "" {
		cmd.Env = append(cmd.Env, "KAFKA_VERSION="+k.config.Version)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // the brokers are its children and live on
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(out.String()), fmt.Errorf("kafka-cluster %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return strings.TrimSpace(out.String()), nil
}

func (k *Kafka) must(t testing.TB, args ...string) string {
	t.Helper()
	out, err := k.script(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Kill ends a broker with SIGKILL. Nodes count from 1.
func (k *Kafka) Kill(t testing.TB, node int) {
	t.Helper()
	k.must(t, "kill", k.Dir, strconv.Itoa(node))
}

// Halt stops a broker in order.
func (k *Kafka) Halt(t testing.TB, node int) {
	t.Helper()
	k.must(t, "halt", k.Dir, strconv.Itoa(node))
}

// Resume starts a killed or halted broker again and returns when its port is open.
func (k *Kafka) Resume(t testing.TB, node int) {
	t.Helper()
	k.must(t, "resume", k.Dir, strconv.Itoa(node))
}

// Add starts one more broker and returns its address. There is room for one.
func (k *Kafka) Add(t testing.TB) string { t.Helper(); return k.must(t, "add", k.Dir) }

func (k *Kafka) stop() {
	for n := range k.nodes() { // their data is not needed any more
		_, _ = k.script("kill", k.Dir, strconv.Itoa(n+1))
	}
	reap("-d %s", k.Dir)
	_ = os.RemoveAll(k.Dir)
}

func (k *Kafka) nodes() []string {
	nodes, _ := filepath.Glob(filepath.Join(k.Dir, "node*"))
	return nodes
}

func (k *Kafka) dump(t testing.TB) {
	t.Helper()
	for _, n := range k.nodes() {
		t.Logf("end of the log of Kafka's %s:\n%s", filepath.Base(n), tail(filepath.Join(n, "server.log"), 2000))
	}
}
