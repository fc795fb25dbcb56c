package capi

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// maxNamespaces is how many namespaces are named for a state. More of them have a cause that is no tenant's.
const maxNamespaces = 100

// group is what is counted together. The namespace is empty unless a person of the namespace may have to act, and for a
// state that clusters of more than maxNamespaces have.
type group struct {
	state     State
	namespace string
}

// metrics count what the provider does. They have no series per cluster.
type metrics struct {
	provider  *Provider
	clusters  *prometheus.Desc
	connects  prometheus.Histogram
	rotations prometheus.Counter
	probes    prometheus.Counter
}

// newMetrics registers the metrics of the fleet:
//
//	archelon_fleet_clusters{state,cluster_namespace}
//	                                           clusters by state
//	archelon_fleet_connect_duration_seconds    how long it took to connect, from the turn of the cluster to its answer
//	archelon_fleet_rotations_total             kubeconfigs that took the place of earlier ones
//	archelon_fleet_probe_failures_total        probes of connected clusters that failed
func newMetrics(registry prometheus.Registerer, p *Provider) (*metrics, error) {
	m := &metrics{
		provider: p,
		clusters: prometheus.NewDesc("archelon_fleet_clusters",
			"CAPI Clusters of the fleet by state: Pending, Connecting, Engaged, Degraded or Disconnected, and by namespace "+
				"unless they are Pending or Engaged, or many namespaces have the state. Only the leader counts.",
			[]string{"state", "cluster_namespace"}, nil),
		connects: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "archelon_fleet_connect_duration_seconds",
			Help: "How long it took a workload cluster to answer over a new connection.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 12),
		}),
		rotations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "archelon_fleet_rotations_total", Help: "Kubeconfigs that took the place of earlier ones without a gap.",
		}),
		probes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "archelon_fleet_probe_failures_total", Help: "Probes of connected workload clusters that failed.",
		}),
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m, m.connects, m.rotations, m.probes} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics, which each provider in a process does in a registry of its own "+
				"(prometheus.WrapRegistererWith): %w", err)
		}
	}
	return m, nil
}

func (m *metrics) connected(took time.Duration, rotated bool) {
	m.connects.Observe(took.Seconds())
	if rotated {
		m.rotations.Inc()
	}
}

func (m *metrics) probeFailed() { m.probes.Inc() }

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descs chan<- *prometheus.Desc) { descs <- m.clusters }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(found chan<- prometheus.Metric) {
	for of, count := range counts(m.provider.Statuses()) {
		found <- prometheus.MustNewConstMetric(
			m.clusters, prometheus.GaugeValue, float64(count), string(of.state), of.namespace)
	}
}

// counts returns how many clusters there are of each state. There is an entry for each state.
func counts(statuses map[types.NamespacedName]Status) map[group]int {
	byState, byNamespace, namespaces := map[group]int{}, map[group]int{}, map[State]int{}
	for _, state := range States() {
		byState[group{state: state}] = 0
	}
	for key, status := range statuses {
		if status.State == Engaged || status.State == Pending {
			byState[group{state: status.State}]++
			continue
		}
		of := group{status.State, key.Namespace}
		if byNamespace[of] == 0 {
			namespaces[of.state]++
		}
		byNamespace[of]++
	}
	for of, count := range byNamespace {
		if namespaces[of.state] > maxNamespaces {
			of.namespace = ""
		}
		byState[of] += count
	}
	return byState
}
