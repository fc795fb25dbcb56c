package instance

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/archelon-io/archelon/internal/shard"
)

// Metrics say which instance this is, and what it gets.
type Metrics struct {
	info    *prometheus.GaugeVec
	left    *prometheus.GaugeVec
	unowned prometheus.Gauge
	// peers are those that have a series. What sets them is called by one goroutine.
	peers map[string]bool
}

// NewMetrics registers the metrics
//
//	archelon_instance_info{instance,scope,watch_filter}     1: the instance and where it works
//	archelon_instance_left_to_peer{peer}                    1: that one has some of the namespaces that this instance claims
//	archelon_namespaces_unowned                             namespaces that are named by instances that do not run
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	if registry == nil {
		return nil, errors.New("metrics need a registry")
	}
	m := &Metrics{
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "archelon_instance_info",
			Help: "The instance that this process belongs to, and what it works on: the namespaces that it gets of its scope, and its watch filter. Always 1.",
		}, []string{"instance", "scope", "watch_filter"}),
		left: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "archelon_instance_left_to_peer",
			Help: "1 if that instance has some of the namespaces that this one claims as well, or has yet to leave them.",
		}, []string{"peer"}),
		unowned: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "archelon_namespaces_unowned",
			Help: "How many namespaces are named by instances that do not run, and by none that does. Nobody imports anything there.",
		}),
	}
	for _, collector := range []prometheus.Collector{m.info, m.left, m.unowned} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Works says where this process works.
func (m *Metrics) Works(id ID, scope shard.Scope, watchFilter string) {
	m.info.Reset()
	m.info.WithLabelValues(id.String(), scope.MetricsLabel(), watchFilter).Set(1)
}

// set says what the instance gets.
func (m *Metrics) set(share Share, unowned int) {
	peers := map[string]bool{}
	for _, part := range slices.Concat(share.Left, share.Awaited) {
		peers[part.Peer.String()] = true
		m.left.WithLabelValues(part.Peer.String()).Set(1)
	}
	// Not all at once: nobody is to read in between that nothing is left to anybody.
	for peer := range m.peers {
		if !peers[peer] {
			m.left.DeleteLabelValues(peer)
		}
	}
	m.peers = peers
	m.unowned.Set(float64(unowned))
}
