package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestEmptyFileIsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "limits:\nviews:\n", "kafka: {}\nlimits: {}\nviews: {}\n"} {
		c, err := Parse([]byte(text))
		if err != nil || !reflect.DeepEqual(c, Default()) {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
}

func TestParse(t *testing.T) {
	got, err := Parse([]byte(`
kafka:
  bootstrap.servers: [a:9092, b:9092]
  tls: {ca: ca.pem, server-name: kafka}
  sasl:
    mechanism: SCRAM-SHA-512
    username: tandem
    password-file: /run/secret
listen: 0.0.0.0:9192
advertise: tandem.example
admin: 127.0.0.1:9180
tls: {cert: c.pem, key: k.pem, client-ca: ca.pem}
individual.commit.enable: false
topics:
  orders: {key.range.fetch.enable: false, cooperative.fetch.enable: false, key.range.hashing.load: key}
  "123": {}
  orders.eu:
views: {auto-create: false, orders-wide: {source: orders, partitions: 16}, auto: {source: a, partitions: 2}}
limits:
  max.bytes.key.range.hashing: 1073741824
  individual.commit.max.ranges: 5000
  connections.max.idle.ms: 1000
  drain-timeout: 1m30s
log: {level: debug, format: json}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Kafka = Kafka{
		Bootstrap: Addresses{"a:9092", "b:9092"},
		TLS:       ClientTLS{CA: "ca.pem", ServerName: "kafka"},
		SASL:      SASL{Mechanism: "SCRAM-SHA-512", Username: "tandem", PasswordFile: "/run/secret"},
	}
	want.Listen, want.Advertise, want.Admin = "0.0.0.0:9192", "tandem.example", "127.0.0.1:9180"
	want.TLS = ServerTLS{Cert: "c.pem", Key: "k.pem", ClientCA: "ca.pem"}
	want.Views.AutoCreate = false
	want.Views.Named = map[string]View{"orders-wide": {"orders", 16}, "auto": {"a", 2}}
	off := false
	want.IndividualCommits = false
	want.Topics = map[string]Topic{"orders": {&off, &off, "key"}, "123": {}, "orders.eu": {}}
	want.Limits.IndividualRanges = 5000
	want.Limits.KeyRangeHashingBytes, want.Limits.MaxIdleMs, want.Limits.DrainTimeout = 1<<30, 1000, 90*time.Second
	want.Log = Log{"debug", "json"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func TestViewsKeepDefaultsOfSettings(t *testing.T) {
	c, err := Parse([]byte("views: {orders-wide: {source: orders, partitions: 16}}"))
	if err != nil || !c.Views.AutoCreate || c.Views.Compression != "none" || c.Views.Named["orders-wide"] != (View{"orders", 16}) {
		t.Errorf("%+v, %v", c.Views, err)
	}
	c, err = Parse([]byte("views:\n  compression.type: lz4\n"))
	if err != nil || !c.Views.AutoCreate || c.Views.Compression != "lz4" || c.Views.Named != nil {
		t.Errorf("%+v, %v", c.Views, err)
	}
}

func TestAddressesAsText(t *testing.T) {
	c, err := Parse([]byte("kafka: {bootstrap.servers: 'a:1, b:2'}"))
	if err != nil || fmt.Sprint(c.Kafka.Bootstrap) != "[a:1 b:2]" {
		t.Errorf("%v, %v", c.Kafka.Bootstrap, err)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		// keys
		{"lisen: a:1", `line 1: unknown setting "lisen"; did you mean "listen"?`},
		{"kafka:\n  bootstrap.server: a:1", `line 2: unknown setting "kafka.bootstrap.server"; did you mean "kafka.bootstrap.servers"?`},
		{"kafka: {tls: {caa: x}}", `did you mean "kafka.tls.ca"?`},
		{"max.bytes.key.range.hashing: 1", `did you mean "limits.max.bytes.key.range.hashing"?`},
		{"log: {max.connections: 5}", `did you mean "limits.max.connections"?`},
		{"log: {colour: red}", "there are format, level"},
		{"log:\n  level:debug", "line 2: log must be a mapping of settings, not level:debug"},
		{"views: {autocreate: true}", `unknown setting "views.autocreate"; did you mean "views.auto-create"?`},
		{"views: {w: {source: o, partition: 2}}", `unknown setting "views.w.partition"; did you mean "views.w.partitions"?`},
		{"views: {NAME: 1}", `unknown setting "views.NAME"`},
		{"views: {w: o}", `unknown setting "views.w"; there are auto-create, auto-create-max-partitions, compression.type, and views: NAME: {source: TOPIC, partitions: NUMBER}`},
		{"individual.commits.enable: true", `did you mean "individual.commit.enable"?`},
		{"key.range.hashing.load: key", `did you mean "topics.NAME.key.range.hashing.load"?`},
		{"topics: {o: {key.range.hashing: key}}", `line 1: unknown setting "topics.o.key.range.hashing"; did you mean "topics.o.key.range.hashing.load"?`},
		{"topics: {o: {retention.ms: 1}}", "there are cooperative.fetch.enable, key.range.fetch.enable, key.range.hashing.load"},
		{"topics: {o: {individual.commit.enable: true}}", `unknown setting "topics.o.individual.commit.enable"; did you mean "individual.commit.enable"?`},
		{"topics.o: {}", `unknown setting "topics.o"; write "o" in the section "topics"`},
		{"log.level: warn", `line 1: unknown setting "log.level"; write "level" in the section "log"`},
		{"kafka: {tls.ca: x}", `; write "ca" in the section "kafka.tls"`},
		// twice
		{"listen: a:1\nadmin: b:1\nlisten: b:2", "line 3: listen is there twice, first in line 1"},
		{"topics:\n  o: {}\n  o: {}", "line 3: topics.o is there twice, first in line 2"},
		{"views: {w: {source: o, partitions: 2}, w: {source: o, partitions: 4}}", "line 1: views.w is there twice"},
		{"views: {w: {source: o, source: p}}", "line 1: views.w.source is there twice"},
		// sections
		{"- listen", "line 1: the file must be a mapping of settings, not a list"},
		{"listen a:1", "line 1: the file must be a mapping of settings, not listen a:1"},
		{"kafka:\n- a:1", "line 2: kafka must be a mapping of settings, not a list"},
		{"limits: 5", "line 1: limits must be a mapping of settings, not 5"},
		{"tls: true", "line 1: tls must be a mapping of settings, not true"},
		{"views: [a]", "line 1: views must be a mapping of settings, not a list"},
		{"topics: {o: key}", "line 1: topics.o must be a mapping of settings, not key"},
		{"topics: [o]", "line 1: topics must be a mapping of settings, not a list"},
		{"views: {1: {source: o, partitions: 2}}", "line 1: views.1 must be text: put the name in quotes"},
		// numbers
		{"views:\n  ow:\n    source: o\n    partitions: many", "line 4: views.ow.partitions must be a whole number up to 2147483647, not many"},
		{"views: {ow: {source: o, partitions: many}}", "line 1: views.ow.partitions must be a whole number up to 2147483647, not many"},
		{"views: {ow: {source: o, partitions: 2.5}}", "line 1: views.ow.partitions must be a whole number up to 2147483647, not 2.5"},
		{"views: {ow: {source: o, partitions: 99999999999}}", "up to 2147483647, not 99999999999"},
		{"limits: {max.connections: many}", "line 1: limits.max.connections must be a whole number, not many"},
		{"limits:\n  max.connections: [5]", "line 2: limits.max.connections must be a whole number, not a list"},
		{"limits: {max.connections: true}", "limits.max.connections must be a whole number, not true"},
		{"limits: {max.bytes.key.range.hashing: 1GB}", "limits.max.bytes.key.range.hashing must be a whole number of bytes, not 1GB"},
		{"limits: {connections.max.idle.ms: 10s}", "limits.connections.max.idle.ms must be a whole number of milliseconds, not 10s"},
		// durations
		{"limits: {drain-timeout: 10}", "line 1: limits.drain-timeout must be a duration, a number with a unit, like 10s, not 10"},
		{"limits: {drain-timeout: 10 seconds}", "like 10s, not 10 seconds"},
		{"limits: {drain-timeout: {s: 10}}", "like 10s, not a mapping"},
		// booleans
		{"views: {auto-create: yes}", "line 1: views.auto-create must be true or false, not yes"},
		{"views: {auto-create: {source: o, partitions: 2}}", "line 1: views.auto-create must be true or false, not a mapping"},
		{"topics: {o: {key.range.fetch.enable: maybe}}", "line 1: topics.o.key.range.fetch.enable must be true or false, not maybe"},
		{"individual.commit.enable: 1", "individual.commit.enable must be true or false, not 1"},
		{"individual.commit.enable: 'true'", "individual.commit.enable must be true or false, not 'true'"},
		// texts
		{"listen: [a:1]", "line 1: listen must be text, not a list"},
		{"data: {dir: x}", "line 1: data must be text, not a mapping"},
		{"kafka: {sasl: {username: 0123}}", "kafka.sasl.username must be text, not 0123: put it in quotes"},
		{"kafka: {sasl: {password: 0123}}", "kafka.sasl.password must be text: put it in quotes"},
		{"kafka: {bootstrap.servers: [a:1, b:2]}", "kafka.bootstrap.servers must be HOST:PORT, a list of those, or one text with commas (within braces each needs quotes), not a list"},
		{"kafka:\n  bootstrap.servers: {a: 1}", "line 2: kafka.bootstrap.servers must be HOST:PORT"},
		// an alias is decoded in its place
		{"listen: &a x\nlimits: {max.connections: *a}", "line "},
		{"listen: &a x\nviews: {w: {source: o, partitions: *a}}", "view w: cannot unmarshal"},
		// YAML
		{"listen: a:1\n---\nlisten: b:2", "line 3: here a second document begins; one file has one"},
		{"kafka:\n\ttls: {}", "line 2: tabs do not indent: use spaces"},
		{"\tlisten: a", "line 1: tabs do not indent: use spaces"},
		{"listen: [", "line 1: sequence end token ']' not found"},
		{"admin: a:1\nlisten: 'a", "line 2: could not find end character of single-quoted text"},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v\nwant one line with %q", c.text, err, c.want)
		}
	}
}

// Without a value a setting has its default.
func TestSettingsWithoutAValue(t *testing.T) {
	for _, text := range []string{"listen:", "views: {auto-create: }", "limits: {drain-timeout: ~, max.connections: null}", "kafka:\n  bootstrap.servers:\n  tls:\n"} {
		if c, err := Parse([]byte(text)); err != nil || !reflect.DeepEqual(c, Default()) {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // "" is fine
	}{
		"port":                 {func(c *Config) { c.Listen = "localhost" }, "listen must be HOST:PORT"},
		"large port":           {func(c *Config) { c.Listen = ":70000" }, "port from 0 to 65535"},
		"same admin":           {func(c *Config) { c.Admin = c.Listen }, "admin is the same address"},
		"advertise with port":  {func(c *Config) { c.Advertise = "h:1" }, "advertise must be a host without port"},
		"advertise IPv6":       {func(c *Config) { c.Advertise = "::1" }, ""},
		"data and cluster":     {func(c *Config) { c.Kafka.Bootstrap = Addresses{"a:1"}; c.Data = "d" }, "data is the embedded engine's folder"},
		"credentials alone":    {func(c *Config) { c.Kafka.TLS.Enabled = true }, "no bootstrap.servers"},
		"bad bootstrap":        {func(c *Config) { c.Kafka.Bootstrap = Addresses{"a"} }, "kafka.bootstrap.servers must be HOST:PORT"},
		"cert without key":     {func(c *Config) { c.TLS.Cert = "x" }, "tls needs both cert and key"},
		"negative limit":       {func(c *Config) { c.Views.AutoCreateMax = -1 }, "views.auto-create-max-partitions must not be negative"},
		"client ca alone":      {func(c *Config) { c.TLS.ClientCA = "x" }, "tls.client-ca needs tls.cert"},
		"mechanism":            {secured(func(c *Config) { c.Kafka.SASL.Mechanism = "GSSAPI" }), "must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"},
		"two passwords":        {secured(func(c *Config) { c.Kafka.SASL.PasswordFile = "f" }), "either password or password-file"},
		"no user":              {secured(func(c *Config) { c.Kafka.SASL.Username = "" }), "username is missing"},
		"secured":              {secured(func(c *Config) {}), ""},
		"ca and skip":          {secured(func(c *Config) { c.Kafka.TLS = ClientTLS{CA: "x", InsecureSkipVerify: true} }), "insecure-skip-verify ignores"},
		"view without source":  {named("w", View{"", 2}), "views.w.source is missing"},
		"view of itself":       {named("w", View{"w", 2}), "cannot be its own source"},
		"view of internal":     {named("w", View{"__consumer_offsets", 2}), "internal topic"},
		"view name":            {named("a b", View{"o", 2}), "character other than"},
		"no partitions":        {named("w", View{"o", 0}), "views.w.partitions must be 1 to"},
		"view of a view":       {func(c *Config) { c.Views.Named = map[string]View{"w": {"o", 2}, "x": {"w", 4}} }, "views.x.source is the view w"},
		"codec":                {func(c *Config) { c.Views.Compression = "brotli" }, "views.compression.type must be one of"},
		"small frame":          {func(c *Config) { c.Limits.MaxRequestBytes = 1 }, "socket.request.max.bytes must be 65536 to"},
		"endless idle":         {func(c *Config) { c.Limits.MaxIdleMs = 1 << 60 }, "connections.max.idle.ms"},
		"no ranges":            {func(c *Config) { c.Limits.IndividualRanges = 0 }, "individual.commit.max.ranges must be 1 to"},
		"negative connections": {func(c *Config) { c.Limits.MaxConnections = -1 }, "must not be negative"},
		"topic settings":       {ofTopic("o", Topic{HashingLoad: "message"}), ""},
		"hashing load":         {ofTopic("o", Topic{HashingLoad: "value"}), `topics.o.key.range.hashing.load must be one of message, key, not "value"`},
		"topic name":           {ofTopic("a b", Topic{}), "topics.a b cannot be: \"a b\" has a character"},
		"settings of a view":   {func(c *Config) { named("w", View{"o", 2})(c); ofTopic("w", Topic{})(c) }, "topics.w is a view; these settings are for topics that store records, like its source o"},
		"level":                {func(c *Config) { c.Log.Level = "loud" }, "log.level must be one of"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Default()
			c.change(&cfg)
			err := cfg.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

func secured(change func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Kafka.Bootstrap = Addresses{"a:1"}
		c.Kafka.SASL = SASL{Mechanism: "PLAIN", Username: "u", Password: "p"}
		change(c)
	}
}

func named(name string, v View) func(*Config) {
	return func(c *Config) { c.Views.Named = map[string]View{name: v} }
}

func ofTopic(name string, t Topic) func(*Config) {
	return func(c *Config) { c.Topics = map[string]Topic{name: t} }
}

func TestValidateNamesEveryProblem(t *testing.T) {
	c := Default()
	c.Listen, c.Log.Level = "x", "y"
	if err := c.Validate(); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%v; want two lines", err)
	}
}

// Only what is allowed to be shown is: a new setting is hidden until it is
// added to Redacted.
func TestRedacted(t *testing.T) {
	var c Config
	fill(reflect.ValueOf(&c).Elem(), "")
	shown := fmt.Sprintf("%+v", c.Redacted())
	if strings.Contains(shown, "kafka.sasl.password!") {
		t.Errorf("the password shows: %s", shown)
	}
	on := true
	c.Topics = map[string]Topic{"orders": {&on, nil, "key"}}
	if got := fmt.Sprintf("%+v", c.Redacted()); !strings.Contains(got, "orders:{key.range.fetch.enable: true, key.range.hashing.load: key}") {
		t.Errorf("the settings of a topic do not show: %s", got)
	}
	for _, s := range settings(reflect.TypeFor[Config](), "") {
		f := s.path + "!"
		if strings.Contains(fmt.Sprintf("%+v", c), f) && !strings.Contains(shown, f) && s.path != "kafka.sasl.password" {
			t.Errorf("%s is hidden: show it in Redacted, or say here that it is a secret", s.path)
		}
	}
	if got := Default().Redacted(); !reflect.DeepEqual(got, Default()) {
		t.Errorf("the defaults: %+v", got)
	}
}

// fill sets every text to its path and "!".
func fill(v reflect.Value, path string) {
	for i := range v.NumField() {
		f, full := v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Tag.Get("yaml"), ".")
		switch f.Kind() {
		case reflect.Struct:
			fill(f, full)
		case reflect.String:
			f.SetString(full + "!")
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tandem.yaml")
	if _, err := Load(path); err == nil {
		t.Error("loaded a file that is not there")
	}
	os.WriteFile(path, []byte("admin: b:1\nlistn: a:1"), 0o600)
	if _, err := Load(path); err == nil || err.Error() != "config file "+path+`:2: unknown setting "listn"; did you mean "listen"?` {
		t.Errorf("%v; want the file's name and the line", err)
	}
}

func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	os.WriteFile(path, []byte("pass word\n"), 0o600)
	if got, err := (SASL{PasswordFile: path}).Secret(); got != "pass word" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := (SASL{Password: "p"}).Secret(); got != "p" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTLSFilesMissing(t *testing.T) {
	if c, err := (ClientTLS{}).Load(); c != nil || err != nil {
		t.Error("TLS is on by default")
	}
	if _, err := (ClientTLS{CA: "/none"}).Load(); err == nil || !strings.Contains(err.Error(), "kafka.tls.ca") {
		t.Errorf("%v", err)
	}
	if _, err := (ServerTLS{Cert: "/none", Key: "/none"}).Load(); err == nil || !strings.Contains(err.Error(), "tls.cert") {
		t.Errorf("%v", err)
	}
	if c, err := (ClientTLS{Enabled: true, ServerName: "x"}).Load(); err != nil || c.ServerName != "x" {
		t.Errorf("%v, %v", c, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("views: {auto-create: true, w: {source: o, partitions: 2}}")
	f.Add("kafka: {bootstrap.servers: [a:1]}\n---\n")
	f.Add("topics: {o: {key.range.fetch.enable: true, key.range.hashing.load: key}}")
	f.Add("limits: &a {max.connections: 1}\nlog: *a")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := Parse([]byte(text)); err == nil {
			c.Validate() // must not panic
		}
	})
}
