package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/tandem-kafka/tandem/internal/config"
	"github.com/tandem-kafka/tandem/internal/embedded"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/internal/upstream"
)

// settingFlags are the flags of a command that are settings of the file too.
type settingFlags struct {
	file string
	set  []func(*config.Config) // those given, onto the file's
}

func (s *settingFlags) addConfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.file, "config", "", "`FILE` with settings in YAML; flags win over it")
}

// add defines a text flag that sets a setting when it is given.
func (s *settingFlags) add(cmd *cobra.Command, name, usage string, set func(*config.Config, string)) {
	cmd.Flags().Func(name, usage, func(value string) error {
		if value == "" {
			return errors.New("it is empty")
		}
		s.set = append(s.set, func(c *config.Config) { set(c, value) })
		return nil
	})
}

func (s *settingFlags) addKafka(cmd *cobra.Command, usage string) {
	s.add(cmd, "kafka", usage, func(c *config.Config, v string) { c.Kafka.Bootstrap = config.ParseAddresses(v) })
}

// load returns the file's settings, or the defaults, with the flags on top.
func (s *settingFlags) load() (config.Config, error) {
	c := config.Default()
	if s.file != "" {
		var err error
		if c, err = config.Load(s.file); err != nil {
			return c, err
		}
	}
	for _, set := range s.set {
		set(&c)
	}
	if err := c.Validate(); err != nil {
		return c, err
	}
	return c, nil
}

// orGateway makes a gateway of this machine what a command talks to where no
// cluster is named: it is where the file says, or at the default. The hint says
// so to who gets no answer.
func orGateway(c *config.Config) (hint string) {
	if !c.IsEmbedded() {
		return ""
	}
	c.Kafka.Bootstrap = config.Addresses{c.Listen}
	return "; name a cluster, or a gateway, with --kafka"
}

// newLogger writes to w what the section says.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // Validate allows only the names that slog knows
	}
	opts := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// waiting says that the first answer of a cluster, or of a gateway, takes long.
type waiting func(addresses string, cause error)

// waitingIn says it in the log.
func waitingIn(log *slog.Logger) waiting {
	return func(addresses string, cause error) { log.Warn("still trying", "kafka", addresses, "cause", cause) }
}

// waitingOn says it on stderr, for commands without a log.
func waitingOn(cmd *cobra.Command) waiting {
	return func(addresses string, cause error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "tandem: still trying %s: %v\n", addresses, cause)
	}
}

// reach loads the settings of a command that asks a cluster or a gateway, and says how to reach it; hint is what to add to an error when it
// does not answer.
func (s *settingFlags) reach(cmd *cobra.Command) (c config.Config, up upstream.Config, hint string, err error) {
	if c, err = s.load(); err != nil {
		return c, up, "", err
	}
	hint = orGateway(&c)
	up, err = upstreamConfig(c.Kafka, waitingOn(cmd))
	return c, up, hint, err
}

// upstreamConfig reads the credentials towards the cluster.
func upstreamConfig(k config.Kafka, w waiting) (upstream.Config, error) {
	c := upstream.Config{Bootstrap: k.Bootstrap, Waiting: w}
	var err error
	if c.TLS, err = k.TLS.Load(); err != nil {
		return c, err
	}
	c.SASL, err = mechanism(k.SASL)
	return c, err
}

func mechanism(s config.SASL) (sasl.Mechanism, error) {
	if s.Mechanism == "" {
		return nil, nil
	}
	password, err := s.Secret()
	if err != nil {
		return nil, err
	}
	return upstream.Mechanism(s.Mechanism, s.Username, password)
}

// gatewayConfig is everything of the settings that the gateway wants; the
// cluster's addresses may be those of the embedded engine.
func gatewayConfig(c config.Config, up upstream.Config, log *slog.Logger) (gateway.Config, error) {
	serverTLS, err := c.TLS.Load()
	if err != nil {
		return gateway.Config{}, err
	}
	codec, err := split.ParseCodec(c.Views.Compression)
	if err != nil {
		return gateway.Config{}, err
	}
	views := make(map[string]gateway.ViewConfig, len(c.Views.Named))
	for name, v := range c.Views.Named {
		views[name] = gateway.ViewConfig{Source: v.Source, Partitions: v.Partitions}
	}
	topics := make(map[string]gateway.TopicConfig, len(c.Topics))
	for name, t := range c.Topics {
		topics[name] = gateway.TopicConfig{KeyRangeFetch: t.KeyRangeFetch, CooperativeFetch: t.CooperativeFetch, HashingLoad: gateway.HashingLoad(t.HashingLoad)}
	}
	return gateway.Config{
		Upstream:          up,
		Listen:            c.Listen,
		Advertise:         c.Advertise,
		TLS:               serverTLS,
		AutoCreate:        c.Views.AutoCreate,
		AutoCreateMax:     c.Views.AutoCreateMax,
		Views:             views,
		Compression:       codec,
		IndividualCommits: c.IndividualCommits,
		KeyRangeFetch:     c.KeyRangeFetch,
		CooperativeFetch:  c.CooperativeFetch,
		Topics:            topics,
		Limits: gateway.Limits{
			FrameBytes:       c.Limits.MaxRequestBytes,
			Idle:             time.Duration(c.Limits.MaxIdleMs) * time.Millisecond,
			Connections:      c.Limits.MaxConnections,
			CacheBytes:       c.Limits.KeyRangeHashingBytes,
			IndividualRanges: c.Limits.IndividualRanges,
			Authorization:    c.Limits.AuthorizationRecheck,
			Drain:            c.Limits.DrainTimeout,
		},
		Log: log,
	}, nil
}

func engineOptions(c config.Config, log *slog.Logger) embedded.Options {
	return embedded.Options{
		Dir:               c.Data,
		SyncWrites:        c.Embedded.SyncWrites,
		NoAutoCreate:      !c.Embedded.AutoCreateTopics,
		Partitions:        c.Embedded.Partitions,
		MaxFrame:          c.Limits.MaxRequestBytes,
		RetentionInterval: time.Duration(c.Embedded.RetentionCheckMs) * time.Millisecond,
		Logger:            log,
	}
}
