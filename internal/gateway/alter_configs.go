package gateway

import (
	"context"
	"slices"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// IncrementalAlterConfigs and AlterConfigs, all versions.
//
// max.message.bytes of a view's backing topic keeps writers out and lets
// transactions end: a change of it is refused with POLICY_VIOLATION and a text.
// AlterConfigs sets what it does not name back to its default, so that it must
// name the value that is there.
//
// The gateway's own settings cannot be altered: INVALID_CONFIG and a text that
// says where they are. Where a request repeats the value that is there, the rest
// of it goes on, as does everything else.

const (
	topicResource   = kmsg.ConfigResourceTypeTopic
	guardedConfig   = "max.message.bytes"
	guardedValue    = "78"
	viewConfigFixed = "this topic is a view: its max.message.bytes stays 78, so that nobody writes to it and transactions can end"
)

func init() {
	register(wire.IncrementalAlterConfigs, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.IncrementalAlterConfigsRequest) (bool, error) {
			for i := range req.Resources {
				r := &req.Resources[i]
				if c.altersView(r) || slices.ContainsFunc(r.Configs, isOwnAltered(r.ResourceType)) {
					return true, nil
				}
			}
			return false, nil
		}),
		handle: typed((*conn).handleIncrementalAlterConfigs),
	})
	register(wire.AlterConfigs, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.AlterConfigsRequest) (bool, error) {
			for i := range req.Resources {
				r := &req.Resources[i]
				if c.resetsView(r) || slices.ContainsFunc(r.Configs, isOwnReset(r.ResourceType)) {
					return true, nil
				}
			}
			return false, nil
		}),
		handle: typed((*conn).handleAlterConfigs),
	})
}

func (c *conn) altersView(r *kmsg.IncrementalAlterConfigsRequestResource) bool {
	if r.ResourceType != topicResource || c.gw.views.Name(r.ResourceName) == nil {
		return false
	}
	for _, k := range r.Configs {
		if k.Name == guardedConfig && (k.Op != kmsg.IncrementalAlterConfigOpSet || k.Value == nil || *k.Value != guardedValue) {
			return true
		}
	}
	return false
}

func (c *conn) resetsView(r *kmsg.AlterConfigsRequestResource) bool {
	if r.ResourceType != topicResource || c.gw.views.Name(r.ResourceName) == nil {
		return false
	}
	for _, k := range r.Configs {
		if k.Name == guardedConfig && k.Value != nil && *k.Value == guardedValue {
			return false
		}
	}
	return true
}

func isOwnAltered(t kmsg.ConfigResourceType) func(kmsg.IncrementalAlterConfigsRequestResourceConfig) bool {
	return func(k kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return isOwnConfig(t, k.Name) }
}

func isOwnReset(t kmsg.ConfigResourceType) func(kmsg.AlterConfigsRequestResourceConfig) bool {
	return func(k kmsg.AlterConfigsRequestResourceConfig) bool { return isOwnConfig(t, k.Name) }
}

// refuseAltered returns the error and the text for a resource whose changes are
// refused, or 0.
func (c *conn) refuseAltered(r *kmsg.IncrementalAlterConfigsRequestResource) (code int16, text string) {
	if c.altersView(r) {
		return kerr.PolicyViolation.Code, viewConfigFixed
	}
	for _, k := range r.Configs {
		if k.Op != kmsg.IncrementalAlterConfigOpSet {
			k.Value = nil
		}
		if text := c.gw.refuseOwnConfig(r.ResourceType, r.ResourceName, k.Name, k.Value); text != "" {
			return kerr.InvalidConfig.Code, text
		}
	}
	return 0, ""
}

// refuseReset is refuseAltered of AlterConfigs.
func (c *conn) refuseReset(r *kmsg.AlterConfigsRequestResource) (code int16, text string) {
	if c.resetsView(r) {
		return kerr.PolicyViolation.Code, viewConfigFixed
	}
	for _, k := range r.Configs {
		if text := c.gw.refuseOwnConfig(r.ResourceType, r.ResourceName, k.Name, k.Value); text != "" {
			return kerr.InvalidConfig.Code, text
		}
	}
	return 0, ""
}

func (c *conn) handleIncrementalAlterConfigs(ctx context.Context, req *kmsg.IncrementalAlterConfigsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	var rest []kmsg.IncrementalAlterConfigsRequestResource
	for i := range req.Resources {
		r := &req.Resources[i]
		code, text := c.refuseAltered(r)
		if code == 0 {
			r.Configs = slices.DeleteFunc(r.Configs, isOwnAltered(r.ResourceType))
			rest = append(rest, *r)
			continue
		}
		rr := kmsg.NewIncrementalAlterConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = r.ResourceType, r.ResourceName
		rr.ErrorCode, rr.ErrorMessage = code, kmsg.StringPtr(text)
		resp.Resources = append(resp.Resources, rr)
	}
	if len(rest) == 0 {
		return resp, nil
	}
	ask := *req
	ask.Resources = rest
	kresp, err := c.roundTrip(ctx, &ask)
	if err != nil {
		return nil, err
	}
	r := kresp.(*kmsg.IncrementalAlterConfigsResponse)
	resp.ThrottleMillis = r.ThrottleMillis
	resp.Resources = append(resp.Resources, r.Resources...)
	return resp, nil
}

func (c *conn) handleAlterConfigs(ctx context.Context, req *kmsg.AlterConfigsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrAlterConfigsResponse()
	var rest []kmsg.AlterConfigsRequestResource
	for i := range req.Resources {
		r := &req.Resources[i]
		code, text := c.refuseReset(r)
		if code == 0 {
			r.Configs = slices.DeleteFunc(r.Configs, isOwnReset(r.ResourceType))
			rest = append(rest, *r)
			continue
		}
		rr := kmsg.NewAlterConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = r.ResourceType, r.ResourceName
		rr.ErrorCode, rr.ErrorMessage = code, kmsg.StringPtr(text)
		resp.Resources = append(resp.Resources, rr)
	}
	if len(rest) == 0 {
		return resp, nil
	}
	ask := *req
	ask.Resources = rest
	kresp, err := c.roundTrip(ctx, &ask)
	if err != nil {
		return nil, err
	}
	r := kresp.(*kmsg.AlterConfigsResponse)
	resp.ThrottleMillis = r.ThrottleMillis
	resp.Resources = append(resp.Resources, r.Resources...)
	return resp, nil
}
