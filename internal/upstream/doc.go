// Package upstream owns the cluster behind the gateway: dialling its brokers,
// the gateway's own connections and credentials, which brokers and topics
// there are, the definitions topic __tandem_views, and the raw reads of source
// partitions. It is the only package of the gateway that imports kgo.
package upstream
