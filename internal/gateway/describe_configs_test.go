package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func describe(t kmsg.ConfigResourceType, name string, names []string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = t, name, names
	req.Resources = append(req.Resources, r)
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = 4, true, true
	return req
}

func incremental(topic, name string, op kmsg.IncrementalAlterConfigOp, value string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = topicResource, topic
	r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: op, Value: &value}}
	req.Resources, req.Version = append(req.Resources, r), 1
	return req
}

func reset(topic, name, value string) *kmsg.AlterConfigsRequest {
	req := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = topicResource, topic
	r.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: name, Value: &value}}
	req.Resources, req.Version = append(req.Resources, r), 2
	return req
}

// own shows the gateway's settings in an answer, as kafka-configs does.
func own(t *testing.T, resp *kmsg.DescribeConfigsResponse) string {
	t.Helper()
	if len(resp.Resources) != 1 {
		t.Fatalf("%d resources", len(resp.Resources))
	}
	var lines []string
	for _, k := range resp.Resources[0].Configs {
		if !isOwnConfig(resp.Resources[0].ResourceType, k.Name) {
			continue
		}
		if !k.ReadOnly || k.IsSensitive {
			t.Errorf("%s: read-only %v, sensitive %v", k.Name, k.ReadOnly, k.IsSensitive)
		}
		line := fmt.Sprintf("%s=%s %s %s", k.Name, *k.Value, k.ConfigType, k.Source)
		for i, s := range k.ConfigSynonyms {
			if i > 0 { // the first is the value itself
				line += fmt.Sprintf(" < %s %s", *s.Value, s.Source)
			}
			if s.Name != k.Name || i == 0 && (*s.Value != *k.Value || s.Source != k.Source) {
				t.Errorf("%s=%s has the synonym %+v", k.Name, *k.Value, s)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// settingsWorld is a gateway with settings of its own in front of the topics
// orders, payments and plain, and a view of plain.
func settingsWorld(t *testing.T) *world {
	on, off := true, false
	w := newWorld(t, func(c *Config) {
		c.IndividualCommits, c.KeyRangeFetch, c.CooperativeFetch = true, false, true
		c.Topics = map[string]TopicConfig{"orders": {KeyRangeFetch: &on, HashingLoad: LoadKey}, "payments": {KeyRangeFetch: &off, CooperativeFetch: &off}}
	})
	for _, topic := range []string{"orders", "payments", "plain"} {
		w.topic(topic, 1)
	}
	if _, err := w.gw.views.Create(t.Context(), "wide", "plain", 4); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestDescribeConfigsShowsTheGatewaysSettings(t *testing.T) {
	w := settingsWorld(t)
	conn := w.dial(0)
	for _, c := range []struct {
		kind kmsg.ConfigResourceType
		name string
		want string
	}{
		{topicResource, "orders", "key.range.fetch.enable=true BOOLEAN DYNAMIC_TOPIC_CONFIG < false STATIC_BROKER_CONFIG < true DEFAULT_CONFIG; " +
			"key.range.hashing.load=key STRING DYNAMIC_TOPIC_CONFIG < message DEFAULT_CONFIG; cooperative.fetch.enable=true BOOLEAN DEFAULT_CONFIG"},
		{topicResource, "payments", "key.range.fetch.enable=false BOOLEAN DYNAMIC_TOPIC_CONFIG < false STATIC_BROKER_CONFIG < true DEFAULT_CONFIG; " +
			"key.range.hashing.load=message STRING DEFAULT_CONFIG; cooperative.fetch.enable=false BOOLEAN DYNAMIC_TOPIC_CONFIG < true DEFAULT_CONFIG"},
		{topicResource, "plain", "key.range.fetch.enable=false BOOLEAN STATIC_BROKER_CONFIG < true DEFAULT_CONFIG; " +
			"key.range.hashing.load=message STRING DEFAULT_CONFIG; cooperative.fetch.enable=true BOOLEAN DEFAULT_CONFIG"},
		{topicResource, "wide", ""},    // a view
		{topicResource, "nothing", ""}, // an error
		{brokerResource, "0", "individual.commit.enable=true BOOLEAN DEFAULT_CONFIG; " +
			"key.range.fetch.enable=false BOOLEAN STATIC_BROKER_CONFIG < true DEFAULT_CONFIG; " +
			"max.bytes.key.range.hashing=134217728 LONG DEFAULT_CONFIG; cooperative.fetch.enable=true BOOLEAN DEFAULT_CONFIG"},
		{brokerResource, "", ""},  // what was set for all brokers
		{brokerResource, "1", ""}, // not this one: an error
		{kmsg.ConfigResourceTypeGroupConfig, "g", ""},
	} {
		resp := conn.ask(describe(c.kind, c.name, nil)).(*kmsg.DescribeConfigsResponse)
		if got := own(t, resp); got != c.want {
			t.Errorf("%s %q:\n %s\nwant\n %s", c.kind, c.name, got, c.want)
		}
		if r := resp.Resources[0]; r.ErrorCode == 0 && len(r.Configs) < 4 {
			t.Errorf("%s %q: the cluster's own configs are missing: %+v", c.kind, c.name, r.Configs)
		}
		if c.kind != topicResource || c.want == "" {
			continue
		}
		fetch := fmt.Sprintf("key.range.fetch.enable=%v ", w.gw.cfg.keyRangeFetch(c.name))
		load := fmt.Sprintf("key.range.hashing.load=%s ", w.gw.cfg.hashingLoad(c.name))
		if !strings.Contains(c.want, fetch) || !strings.Contains(c.want, load) {
			t.Errorf("%s: what is shown is not what counts: %s%s", c.name, fetch, load)
		}
	}
}

func TestDescribeConfigsInEveryVersion(t *testing.T) {
	conn := settingsWorld(t).dial(0)
	for version := range int16(5) {
		for _, flags := range []bool{true, false} {
			req := describe(topicResource, "plain", []string{"retention.ms", configKeyRangeFetch})
			req.Version, req.IncludeSynonyms, req.IncludeDocumentation = version, flags, flags
			r := conn.ask(req).(*kmsg.DescribeConfigsResponse).Resources[0]
			if len(r.Configs) != 2 || r.Configs[0].Name != "retention.ms" || r.Configs[1].Name != configKeyRangeFetch {
				t.Fatalf("v%d: %+v", version, r.Configs)
			}
			k := r.Configs[1]
			if *k.Value != "false" || !k.ReadOnly || k.IsDefault {
				t.Errorf("v%d: %+v", version, k)
			}
			if got, want := len(k.ConfigSynonyms), 2; (got == want) != (flags && version >= 1) || got != want && got != 0 {
				t.Errorf("v%d: %d synonyms", version, got)
			}
			if (k.Documentation != nil) != (flags && version >= 3) || (k.ConfigType == kmsg.ConfigTypeBoolean) != (version >= 3) {
				t.Errorf("v%d: type %v, documentation %v", version, k.ConfigType, k.Documentation)
			}
		}
	}
}

// What asks for none of the gateway's settings is the cluster's to answer.
func TestDescribeConfigsOfOtherNames(t *testing.T) {
	w := settingsWorld(t)
	twice := describe(topicResource, "orders", nil)
	twice.Resources = append(twice.Resources, twice.Resources...)
	group := describe(kmsg.ConfigResourceTypeGroupConfig, "g", nil)
	other := describe(topicResource, "orders", []string{"retention.ms", configIndividualCommit})
	for _, req := range []*kmsg.DescribeConfigsRequest{twice, group, other} {
		if w.gw.describesOwn(req) {
			t.Errorf("%+v does not pass as bytes", req.Resources)
		}
	}
	for _, req := range []*kmsg.DescribeConfigsRequest{describe(topicResource, "orders", nil), describe(topicResource, "orders", []string{}), describe(brokerResource, "0", []string{configIndividualCommit})} {
		if !w.gw.describesOwn(req) {
			t.Errorf("%+v passes as bytes", req.Resources)
		}
	}
}

func TestOwnSettingsAreNotAltered(t *testing.T) {
	w := settingsWorld(t)
	conn := w.dial(0)
	// The cluster, which does not know these names, must not see one.
	saw := func(kind kmsg.ConfigResourceType, name string) {
		if isOwnConfig(kind, name) {
			t.Errorf("the cluster is asked to change %s", name)
		}
	}
	w.fake.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		switch req := req.(type) {
		case *kmsg.IncrementalAlterConfigsRequest:
			for _, r := range req.Resources {
				for _, k := range r.Configs {
					saw(r.ResourceType, k.Name)
				}
			}
		case *kmsg.AlterConfigsRequest:
			for _, r := range req.Resources {
				for _, k := range r.Configs {
					saw(r.ResourceType, k.Name)
				}
			}
		}
		return nil, nil, false
	})
	const set, del, app = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend
	for _, c := range []struct {
		topic, name, value string
		op                 kmsg.IncrementalAlterConfigOp
		want               string // in the text; "" is no error
	}{
		{"orders", configKeyRangeFetch, "false", set, "change topics.orders.key.range.fetch.enable in the config file"},
		{"orders", configKeyRangeFetch, "true", set, ""}, // as it is
		{"orders", configKeyRangeFetch, "", del, "topics.orders.key.range.fetch.enable"},
		{"orders", configHashingLoad, "key", app, "topics.orders.key.range.hashing.load"},
		{"wide", configKeyRangeFetch, "true", set, "is not for views"},
		{"orders", "retention.ms", "1000", set, ""},
	} {
		// The resource's other changes share its fate.
		req := incremental(c.topic, "cleanup.policy", set, "compact")
		req.Resources[0].Configs = append(req.Resources[0].Configs, incremental(c.topic, c.name, c.op, c.value).Resources[0].Configs...)
		before := w.config(c.topic, "cleanup.policy")
		r := conn.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources
		checkAltered(t, "IncrementalAlterConfigs", c.name, c.want, r[0].ErrorCode, r[0].ErrorMessage)
		if after := w.config(c.topic, "cleanup.policy"); (c.want == "") != (after == "compact") || c.want != "" && after != before {
			t.Errorf("%s=%s of %s: cleanup.policy was %s and is %s", c.name, c.value, c.topic, before, after)
		}
		conn.ask(incremental(c.topic, "cleanup.policy", del, ""))
		if c.op != set || c.topic == "wide" {
			continue
		}
		legacy := reset(c.topic, c.name, c.value)
		l := conn.ask(legacy).(*kmsg.AlterConfigsResponse).Resources
		checkAltered(t, "AlterConfigs", c.name, c.want, l[0].ErrorCode, l[0].ErrorMessage)
	}
	for _, name := range []string{"", "0"} {
		req := incremental(name, configHashingBytes, set, "1")
		req.Resources[0].ResourceType = brokerResource
		r := conn.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources
		checkAltered(t, "IncrementalAlterConfigs", configHashingBytes, "change limits.max.bytes.key.range.hashing", r[0].ErrorCode, r[0].ErrorMessage)
	}
}

func checkAltered(t *testing.T, api, name, want string, code int16, message *string) {
	t.Helper()
	text := ""
	if message != nil {
		text = *message
	}
	if want == "" && code != 0 || want != "" && (code != kerr.InvalidConfig.Code || !strings.Contains(text, want)) {
		t.Errorf("%s of %s: error %d, %q; want %q", api, name, code, text, want)
	}
}

func TestFeaturesSayWhatIsOn(t *testing.T) {
	on, off := true, false
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   tandemmsg.Features
	}{
		{"all off", func(*Config) {}, tandemmsg.Features{}},
		{"individual commits", func(c *Config) { c.IndividualCommits = true }, tandemmsg.Features{IndividualCommit: true}},
		{"key ranges", func(c *Config) { c.KeyRangeFetch = true }, tandemmsg.Features{KeyRangeFetch: true}},
		{"key ranges of a topic", func(c *Config) {
			c.Topics = map[string]TopicConfig{"a": {KeyRangeFetch: &off}, "b": {KeyRangeFetch: &on}}
		}, tandemmsg.Features{KeyRangeFetch: true}},
		{"cooperation", func(c *Config) { c.IndividualCommits, c.CooperativeFetch = true, true }, tandemmsg.Features{IndividualCommit: true, CooperativeFetch: true}},
		{"cooperation on a topic", func(c *Config) {
			c.IndividualCommits, c.Topics = true, map[string]TopicConfig{"b": {CooperativeFetch: &on}}
		}, tandemmsg.Features{IndividualCommit: true, CooperativeFetch: true}},
		{"cooperation without individual commits", func(c *Config) { c.CooperativeFetch = true }, tandemmsg.Features{}},
		{"key ranges of no topic", func(c *Config) { c.Topics = map[string]TopicConfig{"a": {KeyRangeFetch: &off}, "b": {}} }, tandemmsg.Features{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.change)
			conn := w.dial(anyBroker)
			for version := range int16(5) {
				req := kmsg.NewPtrApiVersionsRequest()
				req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "test", "1"
				resp := conn.ask(req).(*kmsg.ApiVersionsResponse)
				want := c.want
				if version < 3 {
					want = tandemmsg.Features{}
				}
				if got := tandemmsg.ReadFeatures(resp); got != want {
					t.Errorf("v%d: %+v, want %+v", version, got, want)
				}
				others := slices.ContainsFunc(resp.SupportedFeatures, func(f kmsg.ApiVersionsResponseSupportedFeature) bool { return f.Name == "transaction.version" })
				if others != (version >= 3) {
					t.Errorf("v%d: the cluster's own features: %v", version, others)
				}
			}
		})
	}
}
