package embedded

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Options says how the engine runs. The zero value is a temporary engine.
type Options struct {
	// Dir is the data folder, made when it does not exist. Empty: a new
	// folder below os.TempDir, removed by Close.
	Dir string

	// Port to listen on, on 127.0.0.1. Default: a free one.
	Port int

	// SyncWrites flushes every write to the disk before it is answered, so
	// that acknowledged data outlives a crash of the host and not only of the
	// process. Kafka's own default is not to.
	SyncWrites bool

	// NoAutoCreate refuses topics that do not exist instead of creating them
	// (Kafka's auto.create.topics.enable=false).
	NoAutoCreate bool

	// Partitions of topics that are created without a number (Kafka's
	// num.partitions). Default 1.
	Partitions int

	// MaxFrame is the largest request in bytes. Default 104857600, Kafka's
	// socket.request.max.bytes.
	MaxFrame int

	// RetentionInterval is the time between two checks of retention (Kafka's
	// log.retention.check.interval.ms). Default 5 minutes.
	RetentionInterval time.Duration

	// Logger gets warnings of the engine. Default: none.
	Logger *slog.Logger
}

// Engine is a running embedded broker.
type Engine struct {
	dir     string
	temp    bool
	log     *slog.Logger
	cluster *kfake.Cluster
	lock    *folderLock
	state   *logState
	folder  folder
	addrs   []string

	partitions   int
	noAutoCreate bool

	cancel context.CancelFunc
	done   sync.WaitGroup
	once   sync.Once

	mu      sync.Mutex
	closing bool // nothing more is added to done
}

// ErrInUse says that another process has the data folder open.
var ErrInUse = errors.New("the data folder is in use by another process: end that one, or choose another folder")

// Open starts the engine on its folder and returns when it takes requests. It
// repairs the folder first when the last process on it did not end with Close.
// An error wraps ErrInUse when the folder is locked.
func Open(opts Options) (_ *Engine, err error) {
	opts = opts.withDefaults()
	e := &Engine{dir: opts.Dir, log: opts.Logger, partitions: opts.Partitions, noAutoCreate: opts.NoAutoCreate}
	if e.dir == "" {
		if e.dir, err = temporaryFolder(); err != nil {
			return nil, err
		}
		e.temp = true
	} else if err := os.MkdirAll(e.dir, 0o755); errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("data folder %s: it, or what it lies in, is a file, not a folder: choose another --data", e.dir)
	} else if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if e.lock, err = lockFolder(e.dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.lock.unlock()
			if e.temp {
				os.RemoveAll(e.dir)
			}
		}
	}()

	e.folder = folder{dir: e.dir, log: e.log}
	if e.state, err = loadLogState(filepath.Join(e.dir, logStateFile)); err != nil {
		return nil, err
	}
	if err := e.folder.recover(e.state); err != nil {
		return nil, fmt.Errorf("data folder %s: %w", e.dir, err)
	}
	if e.cluster, err = kfake.NewCluster(e.clusterOptions(opts)...); err != nil {
		return nil, fmt.Errorf("embedded engine: %w", err)
	}
	e.addrs = e.cluster.ListenAddrs()
	e.restoreLogStarts()
	if err := e.compact(); err != nil {
		e.cluster.Close()
		return nil, err
	}
	e.addControls()
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.done.Go(func() { e.runRetention(ctx, opts.RetentionInterval) })
	return e, nil
}

func (o Options) withDefaults() Options {
	if o.Partitions <= 0 {
		o.Partitions = 1
	}
	if o.MaxFrame <= 0 {
		o.MaxFrame = 100 << 20
	}
	if o.RetentionInterval <= 0 {
		o.RetentionInterval = 5 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (e *Engine) clusterOptions(opts Options) []kfake.Opt {
	kopts := []kfake.Opt{
		kfake.Ports(opts.Port), // one broker
		kfake.DataDir(e.dir),
		kfake.ClusterID(newClusterID()), // of a new folder; else the folder's own counts
		kfake.DefaultNumPartitions(opts.Partitions),
		kfake.GroupMaxSessionTimeout(30 * time.Minute), // Kafka's group.max.session.timeout.ms
		kfake.WithLogger(kfakeLogger{e.log}),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			if err != nil {
				return nil, err
			}
			return &guardListener{Listener: l, maxFrame: opts.MaxFrame, log: e.log, left: e.leftWhileJoining}, nil
		}),
		kfake.BrokerConfigs(map[string]string{
			// Never in the background: kfake's own pass removes a compacted
			// topic's records by age, and its segments before it has written
			// the new ones. See compact and runRetention.
			"log.cleaner.backoff.ms": "1000000000000",
			"log.retention.ms":       "-1",
		}),
	}
	if opts.SyncWrites {
		kopts = append(kopts, kfake.SyncWrites())
	}
	return kopts
}

// Addrs returns the engine's bootstrap addresses, each HOST:PORT on the
// loopback interface.
func (e *Engine) Addrs() []string { return e.addrs }

// Dir returns the data folder.
func (e *Engine) Dir() string { return e.dir }

// Temporary says whether the data folder goes away with Close.
func (e *Engine) Temporary() bool { return e.temp }

// Close saves everything and releases the folder. Connections are cut. It may
// be called more than once.
func (e *Engine) Close() {
	e.once.Do(func() {
		e.cancel()
		e.mu.Lock()
		e.closing = true
		e.mu.Unlock()
		e.done.Wait()
		e.cluster.Close()
		if e.temp {
			os.RemoveAll(e.dir)
		} else if err := e.folder.markClean(); err != nil {
			e.log.Warn("embedded engine: the next start has to repair the folder", "error", err)
		}
		e.lock.unlock()
	})
}

// newClusterID makes an id as Kafka's Uuid.randomUuid writes it: 16 random
// bytes in URL-safe base64 without padding.
func newClusterID() string {
	var id [16]byte
	rand.Read(id[:])
	return base64.RawURLEncoding.EncodeToString(id[:])
}

type kfakeLogger struct{ log *slog.Logger }

func (l kfakeLogger) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		to = slog.LevelError
	case kfake.LogLevelWarn:
		to = slog.LevelWarn
	}
	if l.log.Enabled(context.Background(), to) {
		l.log.Log(context.Background(), to, "embedded engine: "+fmt.Sprintf(format, args...))
	}
}
