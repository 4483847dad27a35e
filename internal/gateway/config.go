package gateway

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// Config is everything a gateway is told.
type Config struct {
	Upstream upstream.Config
	// Listen is HOST:PORT of the bootstrap port; broker ports are PORT+slot of
	// the broker, see view.Log.PortSlot. Port 0 takes a free one (for tests:
	// the ports then differ after a restart).
	Listen string
	// Advertise is the host that clients are told; default: the listening
	// host or, where that is unspecified, the address the client came to.
	Advertise string
	// TLS of the listening side; nil: plain.
	TLS *tls.Config
	// AutoCreate makes a view when a client asks for SOURCE.viewN.
	AutoCreate bool
	// AutoCreateMax is the most virtual partitions of a view that is made so; 0: as many as a view can have.
	AutoCreateMax int32
	// Views are made, where they are missing, before clients may connect.
	Views map[string]ViewConfig
	// NoViews is for StartInProcess: what other gateways know as views are
	// empty topics to this one, and it needs no rights to __tandem_views. Groups
	// that read views must not commit through it.
	NoViews bool
	// Compression of the batches that views send; default none.
	Compression split.Codec
	// IndividualCommits lets groups commit offset ranges: individual.commit.enable.
	IndividualCommits bool
	// KeyRangeFetch lets consumers fetch key ranges of topics that Topics says nothing else of: key.range.fetch.enable.
	KeyRangeFetch bool
	// CooperativeFetch lets the members of a group fetch topics cooperatively that Topics says nothing else of: cooperative.fetch.enable. It needs IndividualCommits.
	CooperativeFetch bool
	// Topics are the topics with settings of their own.
	Topics map[string]TopicConfig
	// Limits; zero values get their defaults.
	Limits Limits
	Log    *slog.Logger
}

// ViewConfig is a view named in the config file.
type ViewConfig struct {
	Source     string
	Partitions int32
}

// TopicConfig is what holds for one topic that stores records. Views have no
// such settings.
type TopicConfig struct {
	KeyRangeFetch *bool // key.range.fetch.enable; nil: Config.KeyRangeFetch
	// CooperativeFetch is cooperative.fetch.enable; nil: Config.CooperativeFetch.
	CooperativeFetch *bool
	HashingLoad      HashingLoad // key.range.hashing.load; empty: LoadMessage
}

// HashingLoad is what stays in memory of records that were searched for a key
// range.
type HashingLoad string

// Values of key.range.hashing.load.
const (
	LoadMessage HashingLoad = "message" // the records
	LoadKey     HashingLoad = "key"     // their offsets and key positions; values are read again on demand
)

// keyRangeFetch reports whether key ranges of a topic may be fetched.
func (c *Config) keyRangeFetch(topic string) bool {
	if t := c.Topics[topic]; t.KeyRangeFetch != nil {
		return *t.KeyRangeFetch
	}
	return c.KeyRangeFetch
}

// cooperativeFetch reports whether a topic may be fetched cooperatively.
func (c *Config) cooperativeFetch(topic string) bool {
	if t := c.Topics[topic]; t.CooperativeFetch != nil {
		return *t.CooperativeFetch
	}
	return c.CooperativeFetch
}

// hashingLoad is what to keep of a topic's records.
func (c *Config) hashingLoad(topic string) HashingLoad {
	if t := c.Topics[topic]; t.HashingLoad != "" {
		return t.HashingLoad
	}
	return LoadMessage
}

// features are what ApiVersions says of this gateway. Fetching key ranges, or
// cooperatively, is on where any topic may allow it.
func (c *Config) features() tandemmsg.Features {
	f := tandemmsg.Features{IndividualCommit: c.IndividualCommits, KeyRangeFetch: c.KeyRangeFetch, CooperativeFetch: c.CooperativeFetch}
	for _, t := range c.Topics {
		f.KeyRangeFetch = f.KeyRangeFetch || t.KeyRangeFetch != nil && *t.KeyRangeFetch
		f.CooperativeFetch = f.CooperativeFetch || t.CooperativeFetch != nil && *t.CooperativeFetch
	}
	f.CooperativeFetch = f.CooperativeFetch && c.IndividualCommits
	return f
}

// defaultCacheBytes is Limits.CacheBytes where nothing is said.
const defaultCacheBytes = 128 << 20

// Limits bound what clients can make the gateway do.
type Limits struct {
	FrameBytes       int           // largest request; default 104857600, Kafka's socket.request.max.bytes
	Idle             time.Duration // a connection without requests is closed; default 10 min, Kafka's connections.max.idle.ms
	Connections      int           // at most this many clients; default 0: no limit
	CacheBytes       int64         // max.bytes.key.range.hashing; default 128 MiB
	Authorization    time.Duration // how long a connection's right to READ a source is trusted; default 30 s
	Drain            time.Duration // how long Shutdown waits for requests under way; default 10 s
	RefreshTopics    time.Duration // how often sources are looked at for growth; default 2 s
	HoldImpossible   time.Duration // how long the answer to an impossible view name is held back; default 200 ms
	IndividualRanges int           // most offset ranges of individual commits above the stable offset of a partition; default 2,000,000
	RefreshRows      time.Duration // how old the picture of a group's rows may be when a commit is planned; default 5 s
	RenewRows        time.Duration // how old a source row may get before a commit renews it; default 1 h
	SweepFacts       time.Duration // in which all of the fact log is searched for groups that are gone; default 24 h
}

func (l *Limits) defaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if l.FrameBytes == 0 {
		l.FrameBytes = 100 << 20
	}
	if l.CacheBytes == 0 {
		l.CacheBytes = defaultCacheBytes
	}
	def(&l.Idle, 10*time.Minute)
	def(&l.Authorization, 30*time.Second)
	def(&l.Drain, 10*time.Second)
	def(&l.RefreshTopics, 2*time.Second)
	def(&l.HoldImpossible, 200*time.Millisecond)
	if l.IndividualRanges == 0 {
		l.IndividualRanges = 2_000_000
	}
	def(&l.RefreshRows, 5*time.Second)
	def(&l.RenewRows, time.Hour)
	def(&l.SweepFacts, 24*time.Hour)
}
