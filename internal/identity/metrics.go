package identity

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the counts of identities.
type Metrics struct {
	verifications        *prometheus.CounterVec
	identities, clusters *prometheus.Desc
	memory               atomic.Pointer[memory]
}

// NewMetrics registers the metrics of identities:
//
//	archelon_identity_verifications_total{result}  questions to OCI, by what it said
//	archelon_identity_identities{status,reason}    identities by their condition Ready
//	archelon_identity_clusters{reason}             clusters with an identityRef, by why they may not use it
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	if registry == nil {
		return nil, errors.New("metrics need a registry")
	}
	m := &Metrics{
		verifications: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "archelon_identity_verifications_total",
			Help: "Questions to OCI about an API key or a cluster, by what it said: accepted, rejected or unreachable.",
		}, []string{"result"}),
		identities: prometheus.NewDesc("archelon_identity_identities",
			"OCIClusterIdentities by status and reason of their condition Ready. Only the leader counts.",
			[]string{"status", "reason"}, nil),
		clusters: prometheus.NewDesc("archelon_identity_clusters",
			"OCI clusters with an identityRef, by why they may not use the identity; empty if they may. Only the leader counts.",
			[]string{"reason"}, nil),
	}
	for _, collector := range []prometheus.Collector{m.verifications, m} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) verified(result string) {
	if m != nil {
		m.verifications.WithLabelValues(result).Inc()
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- m.identities
	descs <- m.clusters
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	memory := m.memory.Load()
	if memory == nil {
		return
	}
	identities, clusters := memory.tally()
	for is, count := range identities {
		metrics <- prometheus.MustNewConstMetric(
			m.identities, prometheus.GaugeValue, float64(count), is.status, is.reason,
		)
	}
	for reason, count := range clusters {
		metrics <- prometheus.MustNewConstMetric(m.clusters, prometheus.GaugeValue, float64(count), reason)
	}
}
