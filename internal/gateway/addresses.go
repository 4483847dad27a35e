package gateway

import (
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file holds the APIs whose responses name brokers by host and port, all
// versions: FindCoordinator, DescribeCluster (brokers, not controllers),
// ShareFetch and ShareAcknowledge. Metadata, Produce and Fetch have files of
// their own. A client that got one true address would leave the gateway.

func init() {
	register(wire.FindCoordinator, &api{rewrite: always(func(c *conn, r *kmsg.FindCoordinatorResponse) {
		if r.Version < 4 {
			if r.ErrorCode == 0 {
				r.Host, r.Port = c.advertised(r.NodeID, r.Host, r.Port)
			}
			return
		}
		for i := range r.Coordinators {
			k := &r.Coordinators[i]
			if k.ErrorCode == 0 {
				k.Host, k.Port = c.advertised(k.NodeID, k.Host, k.Port)
			}
		}
	})})
	register(wire.DescribeCluster, &api{rewrite: always(func(c *conn, r *kmsg.DescribeClusterResponse) {
		const controllers = 2
		if r.EndpointType == controllers {
			return
		}
		for i := range r.Brokers {
			b := &r.Brokers[i]
			b.Host, b.Port = c.advertised(b.NodeID, b.Host, b.Port)
		}
	})})
	register(wire.ShareFetch, &api{rewrite: always(func(c *conn, r *kmsg.ShareFetchResponse) {
		for i := range r.NodeEndpoints {
			n := &r.NodeEndpoints[i]
			n.Host, n.Port = c.advertised(n.NodeID, n.Host, n.Port)
		}
	})})
	register(wire.ShareAcknowledge, &api{rewrite: always(func(c *conn, r *kmsg.ShareAcknowledgeResponse) {
		for i := range r.NodeEndpoints {
			n := &r.NodeEndpoints[i]
			n.Host, n.Port = c.advertised(n.NodeID, n.Host, n.Port)
		}
	})})
}

// always adapts a function of one response type to api.rewrite.
func always[Resp kmsg.Response](f func(*conn, Resp)) func(*conn, int16) func(kmsg.Response) {
	return func(c *conn, _ int16) func(kmsg.Response) {
		return func(resp kmsg.Response) { f(c, resp.(Resp)) }
	}
}
