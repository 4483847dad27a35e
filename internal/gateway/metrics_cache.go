package gateway

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/tandem-kafka/tandem/internal/slicecache"
)

func (m *metrics) counter(name, help string, value func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
}

func (m *metrics) gauge(name, help string, value func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
}

// registerCoop shows the memory of cooperative fetches.
func (m *metrics) registerCoop(c *chunkMemory) {
	m.gauge("tandem_memory_cooperative_bytes", "Memory of what was read for cooperative fetches, a quarter of tandem_memory_limit_bytes, which it is a part of, and little more at most.", c.usage)
	m.gauge("tandem_memory_cooperative_unread_bytes", "Memory of answers to cooperative fetches that their clients do not read, beside tandem_memory_cooperative_bytes; part of tandem_memory_limit_bytes, too.", c.unread.Load)
	m.counter("tandem_cooperative_waits_total", "Reads for cooperative fetches that waited for memory.", c.waits.Load)
}

// registerCache shows the shared reader's counters and memory, the process and
// the Go runtime.
func (m *metrics) registerCache(c *slicecache.Cache) {
	counter, gauge := m.counter, m.gauge
	cm := c.Metrics()
	counter("tandem_source_bytes_total", "Bytes of record batches read from sources, whatever the number of views, slices and groups that they serve.", cm.BytesLoaded.Load)
	counter("tandem_source_scan_bytes_total", "Part of tandem_source_bytes_total that searched for the own ends of slices.", cm.ScanBytes.Load)
	counter("tandem_source_reads_total", "Fetch requests to the cluster for shared reads.", cm.Loads.Load)
	counter("tandem_source_read_errors_total", "Shared reads that failed.", cm.Errors.Load)
	counter("tandem_blocks_split_total", "Blocks of source records that were split into slices.", cm.Blocks.Load)
	counter("tandem_slice_hits_total", "Fetches of a slice that found their records in memory.", cm.Hits.Load)
	counter("tandem_slice_waits_total", "Fetches of a slice that waited for a shared read.", cm.Waits.Load)
	counter("tandem_evictions_total", "Blocks dropped from memory to make room.", cm.Evictions.Load)
	gauge("tandem_memory_cached_bytes", "Memory of blocks that can be served.", func() int64 { return c.Usage().Cached })
	gauge("tandem_memory_reading_bytes", "Memory reserved for shared reads under way.", func() int64 { return c.Usage().InFlight })
	gauge("tandem_memory_handed_out_bytes", "Memory of blocks that are only held by answers on their way to clients.", func() int64 { return c.Usage().HandedOut })
	gauge("tandem_memory_limit_bytes", "max.bytes.key.range.hashing: the bound of all of them together.", func() int64 { return c.Usage().Max })
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}
