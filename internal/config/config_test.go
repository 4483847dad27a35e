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
  orders: {key.range.fetch.enable: false, key.range.hashing.load: key}
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
	want.Topics = map[string]Topic{"orders": {&off, "key"}, "123": {}, "orders.eu": {}}
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
		{"lisen: a:1", `[1:1] unknown setting "lisen"; did you mean "listen"?`},
		{"kafka:\n  bootstrap.server: a:1", `[2:3] unknown setting "kafka.bootstrap.server"; did you mean "kafka.bootstrap.servers"?`},
		{"kafka: {tls: {caa: x}}", `did you mean "kafka.tls.ca"?`},
		{"max.bytes.key.range.hashing: 1", `did you mean "limits.max.bytes.key.range.hashing"?`},
		{"log: {max.connections: 5}", `did you mean "limits.max.connections"?`},
		{"log: {colour: red}", "there are format, level"},
		{"views: {autocreate: true}", `unknown setting "views.autocreate"; did you mean "views.auto-create"?`},
		{"views: {w: {source: o, partition: 2}}", `unknown setting "views.w.partition"; did you mean "views.w.partitions"?`},
		{"views: {w: {source: o, partitions: many}}", "view w"},
		{"views: {NAME: 1}", `unknown setting "views.NAME"`},
		{"individual.commits.enable: true", `did you mean "individual.commit.enable"?`},
		{"key.range.hashing.load: key", `did you mean "topics.NAME.key.range.hashing.load"?`},
		{"topics: {o: {key.range.hashing: key}}", `[1:14] unknown setting "topics.o.key.range.hashing"; did you mean "topics.o.key.range.hashing.load"?`},
		{"topics: {o: {retention.ms: 1}}", "there are key.range.fetch.enable, key.range.hashing.load"},
		{"topics: {o: {individual.commit.enable: true}}", `unknown setting "topics.o.individual.commit.enable"; did you mean "individual.commit.enable"?`},
		{"topics: {o: key}", "topics.o must be a mapping"},
		{"topics: [o]", "topics must be a mapping"},
		{"topics.o: {}", `unknown setting "topics.o"; write "o" in the section "topics"`},
		{"topics: {o: {key.range.fetch.enable: maybe}}", "[1:38] cannot unmarshal string"},
		{"topics: {o: {}, o: {}}", "[1:17]"},
		{"limits: 5", "limits must be a mapping"},
		{"log.level: warn", `[1:1] unknown setting "log.level"; write "level" in the section "log"`},
		{"kafka: {tls.ca: x}", `; write "ca" in the section "kafka.tls"`},
		{"limits: {drain-timeout: 10}", "a duration is a number with a unit, like 10s"},
		{"kafka: {bootstrap.servers: [a:1, b:2]}", "kafka.bootstrap.servers must be HOST:PORT, a list"},
		{"limits: {max.connections: many}", "[1:27] cannot unmarshal string"},
		{"listen: a:1\nlisten: b:2", "listen"},
		{"listen: a:1\n---\nlisten: b:2", "more than one document"},
		{"- listen", "the file must be a mapping"},
		{"listen: [", ""},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v\nwant one line with %q", c.text, err, c.want)
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
	c.Topics = map[string]Topic{"orders": {&on, "key"}}
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
	os.WriteFile(path, []byte("listn: a:1"), 0o600)
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v; want the file's name", err)
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
