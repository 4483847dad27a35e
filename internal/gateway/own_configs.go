package gateway

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The gateway's settings that clients and tools see among the configs of topics
// and brokers. They have Kafka's form, but they live in the gateway's config
// file: the cluster does not know them, so they are described
// (describe_configs.go) and not altered (alter_configs.go).

// The names of these settings.
const (
	configIndividualCommit = "individual.commit.enable"
	configKeyRangeFetch    = "key.range.fetch.enable"
	configCooperativeFetch = "cooperative.fetch.enable"
	configHashingLoad      = "key.range.hashing.load"
	configHashingBytes     = "max.bytes.key.range.hashing"
)

const brokerResource = kmsg.ConfigResourceTypeBroker

// ownConfigNames are the names that are ours, by the type of resource.
var ownConfigNames = map[kmsg.ConfigResourceType][]string{
	topicResource:  {configKeyRangeFetch, configHashingLoad, configCooperativeFetch},
	brokerResource: {configIndividualCommit, configKeyRangeFetch, configHashingBytes, configCooperativeFetch},
}

func isOwnConfig(t kmsg.ConfigResourceType, name string) bool {
	return slices.Contains(ownConfigNames[t], name)
}

// ownConfig is one setting of one resource.
type ownConfig struct {
	name string
	kind kmsg.ConfigType
	doc  string
	// values has the one in force first and the default last, each with where it
	// is set: what Kafka calls synonyms.
	values []configValue
}

type configValue struct {
	value  string
	source kmsg.ConfigSource
}

// ownConfigs returns the settings that a resource has. Views have none: they
// are for topics that store records. Neither have brokers as a whole (the empty
// name), of which Kafka shows only what was set for all of them.
func (g *Gateway) ownConfigs(t kmsg.ConfigResourceType, name string) []ownConfig {
	keyRangeFetch := ownConfig{
		name: configKeyRangeFetch, kind: kmsg.ConfigTypeBoolean,
		doc:    "Whether consumers may fetch key ranges of partitions. A setting of the Tandem gateway.",
		values: brokerValue(strconv.FormatBool(g.cfg.KeyRangeFetch), "true"),
	}
	cooperativeFetch := ownConfig{
		name: configCooperativeFetch, kind: kmsg.ConfigTypeBoolean,
		doc:    "Whether the members of a group may fetch cooperatively. A setting of the Tandem gateway.",
		values: brokerValue(strconv.FormatBool(g.cfg.CooperativeFetch), "true"),
	}
	switch {
	case t == topicResource && g.views.Name(name) == nil:
		hashingLoad := ownConfig{
			name: configHashingLoad, kind: kmsg.ConfigTypeString,
			doc:    "What the gateway keeps in memory of records that were searched for a key range: message, the records, or key, only their offsets and key positions.",
			values: brokerValue(string(LoadMessage), string(LoadMessage)),
		}
		set := g.cfg.Topics[name]
		if set.KeyRangeFetch != nil {
			keyRangeFetch.setForTopic(strconv.FormatBool(*set.KeyRangeFetch))
		}
		if set.CooperativeFetch != nil {
			cooperativeFetch.setForTopic(strconv.FormatBool(*set.CooperativeFetch))
		}
		if set.HashingLoad != "" {
			hashingLoad.setForTopic(string(set.HashingLoad))
		}
		return []ownConfig{keyRangeFetch, hashingLoad, cooperativeFetch}
	case t == brokerResource && name != "":
		individualCommit := ownConfig{
			name: configIndividualCommit, kind: kmsg.ConfigTypeBoolean,
			doc:    "Whether groups may commit offset ranges. A setting of the Tandem gateway.",
			values: brokerValue(strconv.FormatBool(g.cfg.IndividualCommits), "true"),
		}
		hashingBytes := ownConfig{
			name: configHashingBytes, kind: kmsg.ConfigTypeLong,
			doc:    "Bytes of the gateway's memory for records that were read to serve views and key ranges.",
			values: brokerValue(strconv.FormatInt(g.cfg.Limits.CacheBytes, 10), strconv.Itoa(defaultCacheBytes)),
		}
		return []ownConfig{individualCommit, keyRangeFetch, hashingBytes, cooperativeFetch}
	}
	return nil
}

// brokerValue is a value of the config file. One that is the default counts as
// not set.
func brokerValue(value, byDefault string) []configValue {
	values := []configValue{{byDefault, kmsg.ConfigSourceDefaultConfig}}
	if value != byDefault {
		values = slices.Insert(values, 0, configValue{value, kmsg.ConfigSourceStaticBrokerConfig})
	}
	return values
}

func (o *ownConfig) setForTopic(value string) {
	o.values = slices.Insert(o.values, 0, configValue{value, kmsg.ConfigSourceDynamicTopicConfig})
}

// refuseOwnConfig says why a change of a config is refused, if it is one of
// ours; value is nil where the change is not a plain set. To set what is there
// already is no change: tools that alter a topic's configs as a whole repeat
// what they were shown.
func (g *Gateway) refuseOwnConfig(t kmsg.ConfigResourceType, resource, name string, value *string) string {
	if !isOwnConfig(t, name) {
		return ""
	}
	for _, o := range g.ownConfigs(t, resource) {
		if o.name == name && value != nil && *value == o.values[0].value {
			return ""
		}
	}
	where := name
	switch {
	case t == topicResource && g.views.Name(resource) != nil:
		return fmt.Sprintf("%s is not for views: set it for the view's source, in the config file of the Tandem gateway", name)
	case t == topicResource:
		where = fmt.Sprintf("topics.%.250s.%s", resource, name)
	case name == configHashingBytes:
		where = "limits." + name
	}
	return fmt.Sprintf("%s is a setting of the Tandem gateway: change %s in the config file of each gateway and restart it", name, where)
}
