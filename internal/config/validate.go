package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/tandem-kafka/tandem/internal/view"
)

// Validate checks every setting and the rules between them. Its error names
// all that is wrong, one line each.
func (c Config) Validate() error {
	var p problems
	p.address("listen", c.Listen)
	if c.Admin != "" {
		p.address("admin", c.Admin)
		p.check(c.Admin != c.Listen, "admin", "is the same address as listen")
	}
	if c.Advertise != "" {
		_, _, err := net.SplitHostPort(c.Advertise)
		p.check(err != nil && !strings.ContainsAny(c.Advertise, "/ "), "advertise", "must be a host without port, not %q; clients are told the ports of the listeners", c.Advertise)
	}
	c.Kafka.validate(&p)
	c.TLS.validate(&p)
	if c.IsEmbedded() {
		p.check(!c.Kafka.TLS.On() && c.Kafka.SASL == SASL{}, "kafka", "has credentials but no bootstrap.servers")
	} else {
		p.check(c.Data == "", "data", "is the embedded engine's folder, but kafka.bootstrap.servers names a cluster; remove one of them")
	}
	e := c.Embedded
	p.check(e.Partitions >= 1 && e.Partitions <= view.MaxPartitions, "embedded.num.partitions", "must be 1 to %d, not %d", view.MaxPartitions, e.Partitions)
	p.check(e.RetentionCheckMs >= 1 && e.RetentionCheckMs <= maxMs, "embedded.log.retention.check.interval.ms", "must be 1 to %d, not %d", maxMs, e.RetentionCheckMs)
	c.Views.validate(&p)
	c.validateTopics(&p)
	c.Limits.validate(&p)
	p.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	p.oneOf("log.format", c.Log.Format, "text", "json")
	return errors.Join(p...)
}

// maxMs is the longest time, a hundred years: it fits a time.Duration.
const maxMs = 100 * 365 * 24 * 3600 * 1000

func (k Kafka) validate(p *problems) {
	for _, addr := range k.Bootstrap {
		p.address("kafka.bootstrap.servers", addr)
	}
	p.check((k.TLS.Cert == "") == (k.TLS.Key == ""), "kafka.tls", "needs both cert and key, or neither")
	p.check(!k.TLS.InsecureSkipVerify || k.TLS.CA == "", "kafka.tls", "has a ca that insecure-skip-verify ignores; remove one of them")
	s := k.SASL
	if s == (SASL{}) {
		return
	}
	p.oneOf("kafka.sasl.mechanism", s.Mechanism, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
	p.check(s.Username != "", "kafka.sasl.username", "is missing")
	p.check((s.Password == "") != (s.PasswordFile == ""), "kafka.sasl", "needs either password or password-file")
}

func (t ServerTLS) validate(p *problems) {
	p.check((t.Cert == "") == (t.Key == ""), "tls", "needs both cert and key, or neither")
	p.check(t.ClientCA == "" || t.Cert != "", "tls.client-ca", "needs tls.cert and tls.key")
}

func (v Views) validate(p *problems) {
	p.oneOf("views.compression.type", v.Compression, "none", "gzip", "snappy", "lz4", "zstd")
	p.check(v.AutoCreateMax >= 0, "views.auto-create-max-partitions", "must not be negative")
	for _, name := range slices.Sorted(maps.Keys(v.Named)) {
		path, w := "views."+name, v.Named[name]
		if w.Source == "" {
			p.check(false, path+".source", "is missing")
			continue
		}
		_, chained := v.Named[w.Source]
		p.check(!chained || w.Source == name, path+".source", "is the view %s; name that view's source instead", w.Source)
		// The source's partitions are not known here; any that would do shows
		// what is wrong with the names and the number.
		if _, err := view.New(name, view.Source{Name: w.Source, Partitions: max(w.Partitions, 1)}, w.Partitions, 0); err != nil {
			p.check(w.Partitions >= 1 && w.Partitions <= view.MaxPartitions, path+".partitions", "must be 1 to %d, not %d", view.MaxPartitions, w.Partitions)
			if w.Partitions >= 1 && w.Partitions <= view.MaxPartitions {
				p.check(false, path, "%v", err)
			}
		}
	}
}

func (c Config) validateTopics(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.Topics)) {
		path, t := "topics."+name, c.Topics[name]
		if err := view.ValidTopic(name); err != nil {
			p.check(false, path, "cannot be: %v", err)
			continue
		}
		v, isView := c.Views.Named[name]
		p.check(!isView, path, "is a view; these settings are for topics that store records, like its source %s", v.Source)
		if t.HashingLoad != "" {
			p.oneOf(path+".key.range.hashing.load", t.HashingLoad, "message", "key")
		}
	}
}

func (l Limits) validate(p *problems) {
	p.check(l.MaxRequestBytes >= 64<<10 && l.MaxRequestBytes <= math.MaxInt32, "limits.socket.request.max.bytes", "must be 65536 to %d, not %d", math.MaxInt32, l.MaxRequestBytes)
	p.check(l.MaxIdleMs >= 1000 && l.MaxIdleMs <= maxMs, "limits.connections.max.idle.ms", "must be 1000 to %d, not %d", maxMs, l.MaxIdleMs)
	p.check(l.MaxConnections >= 0, "limits.max.connections", "must not be negative")
	p.check(l.KeyRangeHashingBytes >= 1<<20, "limits.max.bytes.key.range.hashing", "must be at least 1048576, not %d", l.KeyRangeHashingBytes)
	p.check(l.IndividualRanges >= 1 && l.IndividualRanges <= math.MaxInt32, "limits.individual.commit.max.ranges", "must be 1 to %d, not %d", math.MaxInt32, l.IndividualRanges)
	p.check(l.AuthorizationRecheck > 0, "limits.authorization-recheck-interval", "must be more than 0")
	p.check(l.DrainTimeout >= 0, "limits.drain-timeout", "must not be negative")
	p.check(l.StartTimeout > 0, "limits.start-timeout", "must be more than 0")
}

// problems collects what is wrong.
type problems []error

func (p *problems) check(ok bool, setting, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf("%s %s", setting, fmt.Sprintf(format, args...)))
	}
}

func (p *problems) address(setting, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		p.check(false, setting, "must be HOST:PORT, not %q", addr)
		return
	}
	n, err := strconv.Atoi(port)
	p.check(err == nil && n >= 0 && n <= math.MaxUint16, setting, "must have a port from 0 to 65535, not %q", port)
}

func (p *problems) oneOf(setting, value string, values ...string) {
	p.check(slices.Contains(values, value), setting, "must be one of %s, not %q", strings.Join(values, ", "), value)
}
