package translation

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the counts of credentials.
type Metrics struct {
	credentials *prometheus.Desc
	memory      atomic.Pointer[memory]
}

// NewMetrics registers the metrics of cloud credentials:
//
//	archelon_identity_credentials{reason}    cloud credentials for OCI by what became of them
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	if registry == nil {
		return nil, errors.New("metrics need a registry")
	}
	m := &Metrics{credentials: prometheus.NewDesc("archelon_identity_credentials",
		"Rancher's cloud credentials for OCI by what became of them. Only the leader counts.", []string{"reason"}, nil)}
	return m, registry.Register(m)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) { descs <- m.credentials }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	memory := m.memory.Load()
	if memory == nil {
		return
	}
	for reason, count := range memory.tally() {
		metrics <- prometheus.MustNewConstMetric(m.credentials, prometheus.GaugeValue, float64(count), reason)
	}
}
