package config

import (
	"fmt"
	"strings"
	"time"
)

// Config is the whole file. Every flag of tandem serve is in it.
type Config struct {
	// The cluster behind the gateway. Without it the embedded engine runs.
	Kafka Kafka `yaml:"kafka"`
	// HOST:PORT that clients bootstrap from. The ports of the brokers follow it: PORT+1 is broker 0's, and so on.
	Listen string `yaml:"listen" flag:"listen"`
	// Host name or address that clients are told to connect to, when it differs from the one in `listen`. Without a port: the ports are those of the listeners.
	Advertise string `yaml:"advertise" flag:"advertise"`
	// TLS for the clients' connections.
	TLS ServerTLS `yaml:"tls"`
	// Data folder of the embedded engine, made if missing. Empty: a temporary one, gone when tandem ends.
	Data string `yaml:"data" flag:"data"`
	// The embedded engine, used when `kafka` names no cluster.
	Embedded Embedded `yaml:"embedded"`
	// HOST:PORT of /healthz, /readyz and /metrics. Empty: off.
	Admin string `yaml:"admin" flag:"admin"`
	// Views, by name, and how views behave.
	Views Views `yaml:"views"`
	// Let groups commit single offset ranges, so that a record that is not done holds up nothing behind it.
	IndividualCommits bool `yaml:"individual.commit.enable"`
	// Let consumers fetch key ranges of partitions. Holds for topics that say nothing else below `topics`.
	KeyRangeFetch bool `yaml:"key.range.fetch.enable"`
	// Let the members of a group fetch cooperatively, each whatever is next. Holds for topics that say nothing else below `topics`.
	CooperativeFetch bool `yaml:"cooperative.fetch.enable"`
	// Settings of single topics, by the topic's name.
	Topics map[string]Topic `yaml:"topics"`
	// Bounds on what clients can make the gateway do.
	Limits Limits `yaml:"limits"`
	// What is written to stderr.
	Log Log `yaml:"log"`
}

// Kafka is the cluster behind the gateway and the gateway's own credentials
// there. Clients' connections carry the clients' own.
type Kafka struct {
	// HOST:PORT of one or more brokers, a list or one text with commas.
	Bootstrap Addresses `yaml:"bootstrap.servers" flag:"kafka"`
	// TLS towards the brokers.
	TLS ClientTLS `yaml:"tls"`
	// The gateway's own user, for shared reads, `__tandem_views` and backing topics.
	SASL SASL `yaml:"sasl"`
}

// ClientTLS is TLS towards the cluster. Any of its settings turns it on.
type ClientTLS struct {
	// Connect with TLS. The other settings of this section turn it on too.
	Enabled bool `yaml:"enabled"`
	// PEM file of the authorities that sign the brokers' certificates. Empty: the system's.
	CA string `yaml:"ca"`
	// PEM file of the gateway's own certificate, with `key`.
	Cert string `yaml:"cert"`
	// PEM file of the certificate's private key.
	Key string `yaml:"key"`
	// Name to expect in the brokers' certificates. Empty: the host connected to.
	ServerName string `yaml:"server-name"`
	// Take any certificate. For tests: it allows anybody in between to read and change everything.
	InsecureSkipVerify bool `yaml:"insecure-skip-verify"`
}

// SASL is the user that the gateway is to the cluster.
type SASL struct {
	// PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. Empty: no authentication.
	Mechanism string `yaml:"mechanism"`
	// The user's name.
	Username string `yaml:"username"`
	// The user's password.
	Password string `yaml:"password"`
	// File that holds the password and nothing else; a newline at its end does not count. Instead of `password`.
	PasswordFile string `yaml:"password-file"`
}

// ServerTLS is TLS of the listening side.
type ServerTLS struct {
	// PEM file of the gateway's certificate and chain. Empty: clients connect without TLS.
	Cert string `yaml:"cert"`
	// PEM file of the certificate's private key.
	Key string `yaml:"key"`
	// PEM file of authorities; clients must then show a certificate signed by one of them. The cluster does not see it.
	ClientCA string `yaml:"client-ca"`
}

// Embedded is the engine that runs when there is no cluster.
type Embedded struct {
	// Write to the disk before answering, so that acknowledged records outlive a crash of the host. Slow.
	SyncWrites bool `yaml:"sync-writes"`
	// Partitions of topics that are created without a number.
	Partitions int `yaml:"num.partitions"`
	// Create a topic when a client first asks for it.
	AutoCreateTopics bool `yaml:"auto.create.topics.enable"`
	// Milliseconds between two looks for records to delete by the topics' own `retention.ms` and `retention.bytes`.
	RetentionCheckMs int64 `yaml:"log.retention.check.interval.ms"`
}

// Views are the views to make at start and what holds for all views. In the
// file a view is a key with a mapping; keys with a plain value are settings.
type Views struct {
	// Make the view `SOURCE.viewN` when a client first asks for that name.
	AutoCreate bool `yaml:"auto-create"`
	// Most virtual partitions of a view that is made by asking for it; larger ones are for `tandem view create` and this file. 0: no limit but 10,000.
	AutoCreateMax int32 `yaml:"auto-create-max-partitions"`
	// Compression of the batches sent to consumers of views: none, gzip, snappy, lz4 or zstd. Compressing costs ten times what splitting does.
	Compression string `yaml:"compression.type"`
	// A view with that name: topic `source`, `partitions` virtual partitions (the source's number times a power of two).
	Named map[string]View `yaml:"NAME"`
}

// View is a view to make if it is not there.
type View struct {
	// The topic whose records the view shows.
	Source string `yaml:"source"`
	// Virtual partitions: the source's number of partitions times a power of two.
	Partitions int32 `yaml:"partitions"`
}

// Topic is what holds for one topic. It applies to the topic itself, not to
// views of it.
type Topic struct {
	// Let consumers fetch key ranges of this topic's partitions. Default: the file's `key.range.fetch.enable`.
	KeyRangeFetch *bool `yaml:"key.range.fetch.enable"`
	// Let the members of a group fetch this topic cooperatively. Default: the file's `cooperative.fetch.enable`.
	CooperativeFetch *bool `yaml:"cooperative.fetch.enable"`
	// What stays in memory of records that were searched for a key range: `message`, the whole records, or `key`, only their offsets and key positions; values are then read again when they are asked for. Default: `message`.
	HashingLoad string `yaml:"key.range.hashing.load"`
}

// String shows the settings as the file has them.
func (t Topic) String() string {
	var parts []string
	if t.KeyRangeFetch != nil {
		parts = append(parts, fmt.Sprintf("key.range.fetch.enable: %t", *t.KeyRangeFetch))
	}
	if t.CooperativeFetch != nil {
		parts = append(parts, fmt.Sprintf("cooperative.fetch.enable: %t", *t.CooperativeFetch))
	}
	if t.HashingLoad != "" {
		parts = append(parts, "key.range.hashing.load: "+t.HashingLoad)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Limits have Kafka's names and defaults where Kafka has the same limit.
type Limits struct {
	// Largest request in bytes; a larger one closes its connection.
	MaxRequestBytes int `yaml:"socket.request.max.bytes"`
	// A connection without requests for so many milliseconds is closed.
	MaxIdleMs int64 `yaml:"connections.max.idle.ms"`
	// Most client connections at a time; 0: no limit.
	MaxConnections int `yaml:"max.connections"`
	// Bytes of memory for records that were read from sources and split.
	KeyRangeHashingBytes int64 `yaml:"max.bytes.key.range.hashing"`
	// Most offset ranges that a group can have committed individually above the stable offset of a partition. At 80 % the log warns; from the limit on, commits that add more are held back.
	IndividualRanges int `yaml:"individual.commit.max.ranges"`
	// How long a connection's right to read a source is taken as given before the cluster is asked again.
	AuthorizationRecheck time.Duration `yaml:"authorization-recheck-interval"`
	// How long SIGTERM waits for requests under way.
	DrainTimeout time.Duration `yaml:"drain-timeout"`
	// How long the start waits for the cluster to answer.
	StartTimeout time.Duration `yaml:"start-timeout"`
}

// Log is the log on stderr.
type Log struct {
	// debug, info, warn or error.
	Level string `yaml:"level" flag:"log-level"`
	// text or json.
	Format string `yaml:"format"`
}

// Default returns the settings of an empty file.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:9192",
		Embedded: Embedded{
			Partitions:       1,
			AutoCreateTopics: true,
			RetentionCheckMs: 300_000,
		},
		Views:             Views{AutoCreate: true, AutoCreateMax: 1024, Compression: "none"},
		IndividualCommits: true,
		KeyRangeFetch:     true,
		CooperativeFetch:  true,
		Limits: Limits{
			MaxRequestBytes:      104_857_600,
			MaxIdleMs:            600_000,
			KeyRangeHashingBytes: 134_217_728,
			IndividualRanges:     2_000_000,
			AuthorizationRecheck: 30 * time.Second,
			DrainTimeout:         10 * time.Second,
			StartTimeout:         15 * time.Second,
		},
		Log: Log{Level: "info", Format: "text"},
	}
}

// IsEmbedded says whether the embedded engine is to run.
func (c Config) IsEmbedded() bool { return len(c.Kafka.Bootstrap) == 0 }

// On says whether connections to the cluster use TLS.
func (t ClientTLS) On() bool { return t != ClientTLS{} }
