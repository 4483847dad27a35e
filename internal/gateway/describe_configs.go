package gateway

import (
	"context"
	"slices"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeConfigs, all versions.
//
// The gateway's own settings are added to what the cluster answers for topics
// and brokers, where the client asked for them and may see the rest. They are
// read-only, so that tools which copy a topic's configs (MirrorMaker) leave
// them out. Requests that ask for none of them pass as bytes.
//
// Not done: a request that names one resource twice passes as bytes. No client
// sends that, and two bytes could ask for thousands that the gateway would hold.

func init() {
	register(wire.DescribeConfigs, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.DescribeConfigsRequest) (bool, error) {
			return c.gw.describesOwn(req), nil
		}),
		handle: typed((*conn).handleDescribeConfigs),
	})
}

// configResource names what has configs.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string
}

func (g *Gateway) describesOwn(req *kmsg.DescribeConfigsRequest) bool {
	found := false
	seen := make(map[configResource]bool, len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		key := configResource{r.ResourceType, r.ResourceName}
		if seen[key] {
			return false
		}
		seen[key] = true
		found = found || slices.ContainsFunc(ownConfigNames[r.ResourceType], func(name string) bool { return asksFor(r.ConfigNames, name) })
	}
	return found
}

// asksFor reports whether a request's list of names has a name. Kafka takes no
// list and an empty one for all names.
func asksFor(names []string, name string) bool {
	return len(names) == 0 || slices.Contains(names, name)
}

func (c *conn) handleDescribeConfigs(ctx context.Context, req *kmsg.DescribeConfigsRequest) (kmsg.Response, error) {
	kresp, err := c.roundTrip(ctx, req)
	if err != nil {
		return nil, err
	}
	asked := make(map[configResource][]string, len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		asked[configResource{r.ResourceType, r.ResourceName}] = r.ConfigNames
	}
	resp := kresp.(*kmsg.DescribeConfigsResponse)
	for i := range resp.Resources {
		r := &resp.Resources[i]
		names, ok := asked[configResource{r.ResourceType, r.ResourceName}]
		if r.ErrorCode != 0 || !ok {
			continue
		}
		// A gateway behind this one has shown its own.
		r.Configs = slices.DeleteFunc(r.Configs, func(k kmsg.DescribeConfigsResponseResourceConfig) bool {
			return isOwnConfig(r.ResourceType, k.Name)
		})
		for _, o := range c.gw.ownConfigs(r.ResourceType, r.ResourceName) {
			if asksFor(names, o.name) {
				r.Configs = append(r.Configs, o.describe(req.IncludeSynonyms, req.IncludeDocumentation))
			}
		}
	}
	return resp, nil
}

// describe has the setting in the response's form; fields that the version does
// not have are not sent.
func (o *ownConfig) describe(synonyms, documentation bool) kmsg.DescribeConfigsResponseResourceConfig {
	k := kmsg.NewDescribeConfigsResponseResourceConfig()
	k.Name, k.ConfigType, k.ReadOnly = o.name, o.kind, true
	k.Value, k.Source = kmsg.StringPtr(o.values[0].value), o.values[0].source
	k.IsDefault = k.Source == kmsg.ConfigSourceDefaultConfig
	if documentation {
		k.Documentation = kmsg.StringPtr(o.doc)
	}
	if synonyms {
		for _, v := range o.values {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Value, s.Source = o.name, kmsg.StringPtr(v.value), v.source
			k.ConfigSynonyms = append(k.ConfigSynonyms, s)
		}
	}
	return k
}
