package gateway

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metrics are what /metrics shows.
type metrics struct {
	registry       *prometheus.Registry
	connections    prometheus.Gauge
	badConnections prometheus.Counter
	requests       *prometheus.CounterVec
	byKey          sync.Map // int16 -> prometheus.Counter
	viewErrors     prometheus.Counter
	commits        *prometheus.CounterVec
	viewBytes      prometheus.Counter
	viewRefused    prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		registry:       prometheus.NewRegistry(),
		connections:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "tandem_connections", Help: "Client connections that are open."}),
		badConnections: prometheus.NewCounter(prometheus.CounterOpts{Name: "tandem_bad_connections_total", Help: "Client connections closed for what they sent."}),
		requests:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tandem_requests_total", Help: "Requests of clients, by Kafka API."}, []string{"api"}),
		viewErrors:     prometheus.NewCounter(prometheus.CounterOpts{Name: "tandem_view_errors_total", Help: "Times that a view could not be made, grown or looked up."}),
		commits:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tandem_view_commits_total", Help: "Offset commits of virtual partitions, by result."}, []string{"result"}),
		viewBytes:      prometheus.NewCounter(prometheus.CounterOpts{Name: "tandem_view_bytes_total", Help: "Bytes of record batches served from views."}),
		viewRefused:    prometheus.NewCounter(prometheus.CounterOpts{Name: "tandem_view_produce_refused_total", Help: "Produce requests to views that were refused."}),
	}
	m.registry.MustRegister(m.connections, m.badConnections, m.requests, m.viewErrors, m.commits, m.viewBytes, m.viewRefused)
	return m
}

// request counts a request. The counters are looked up once per key: labels are
// too slow for every request.
func (m *metrics) request(key int16) {
	c, ok := m.byKey.Load(key)
	if !ok {
		name := kmsg.NameForKey(key)
		if kmsg.RequestForKey(key) == nil {
			name = "other" // a hostile key must not make a new series
			c = m.requests.WithLabelValues(name)
		} else {
			c, _ = m.byKey.LoadOrStore(key, m.requests.WithLabelValues(name))
		}
	}
	c.(prometheus.Counter).Inc()
}

// Metrics serves the gateway's metrics in Prometheus' text format.
func (g *Gateway) Metrics() http.Handler {
	return promhttp.HandlerFor(g.metrics.registry, promhttp.HandlerOpts{})
}

// Registry lets the process add collectors of its own.
func (g *Gateway) Registry() *prometheus.Registry { return g.metrics.registry }
