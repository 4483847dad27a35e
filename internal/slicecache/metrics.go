package slicecache

import "sync/atomic"

// Metrics counts what a Cache did since it was made. All fields only grow.
type Metrics struct {
	BytesLoaded atomic.Int64 // record bytes read from the cluster
	Loads       atomic.Int64 // Fetch requests to the cluster
	Blocks      atomic.Int64 // blocks split
	Hits        atomic.Int64 // fetches of a slice that found their block in memory
	Waits       atomic.Int64 // fetches of a slice that waited for a load
	Evictions   atomic.Int64 // blocks and raw answers dropped to make room
	Errors      atomic.Int64 // loads that failed
	ScanBytes   atomic.Int64 // part of BytesLoaded that searched for own ends
}

// Usage is what a Cache holds now; but for Partitions in bytes.
type Usage struct {
	Partitions int   // source partitions that were read lately
	Cached     int64 // blocks and raw answers that can be served
	Layouts    int64 // layouts of key-range fetches, and what is known of their slices
	InFlight   int64 // reserved for loads
	HandedOut  int64 // dropped from the cache, but still in answers on their way to clients
	Max        int64
}
