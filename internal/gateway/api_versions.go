package gateway

import (
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions, v0 to the highest that kmsg knows.
//
// The request passes as bytes; from v3 on it names the client's software. The
// response is narrowed to the APIs and versions that the gateway lets through:
// an unknown version could hold a broker address that leads a client past the
// gateway. Tandem's features that are on are listed as supported. A version the
// gateway does not know is answered as a broker answers it: UNSUPPORTED_VERSION
// with a version 0 body that names the range of ApiVersions itself (KIP-511).
func (c *conn) apiVersions(h wire.Header, size int) error {
	if limit, _ := wire.MaxVersion(wire.APIVersions); h.Version > limit {
		if _, err := c.content(size); err != nil {
			return err
		}
		if err := c.barrier(); err != nil {
			return err
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode = 35
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = wire.APIVersions, limit
		resp.ApiKeys = append(resp.ApiKeys, k)
		return c.answer(h.CorrelationID, resp)
	}
	content, err := c.content(size)
	if err != nil {
		return err
	}
	req, err := wire.DecodeRequest(h, content[h.Body:])
	if err != nil {
		return err
	}
	if s := req.(*kmsg.ApiVersionsRequest).ClientSoftwareName; s != "" {
		c.software = s
	}
	return c.request(h, frameOf(content), pending{rewrite: c.gw.narrowVersions})
}

func (g *Gateway) narrowVersions(resp kmsg.Response) {
	r := resp.(*kmsg.ApiVersionsResponse)
	kept := r.ApiKeys[:0]
	for _, k := range r.ApiKeys {
		var ok bool
		if k.MinVersion, k.MaxVersion, ok = wire.Clamp(k.ApiKey, k.MinVersion, k.MaxVersion); ok {
			kept = append(kept, k)
		}
	}
	r.ApiKeys = kept
	tandemmsg.SetFeatures(r, g.cfg.features())
}
