package instance

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics say which instance this is, and what it gets.
type Metrics struct {
	info *prometheus.GaugeVec
	left *prometheus.GaugeVec
	// named is how many namespaces are named by instances that do not run, and unselected counts
	// those that no instance selects.
	named      atomic.Int64
	unselected atomic.Pointer[func() int]
	// peers are those that have a series. What sets them is called by one goroutine.
	peers map[string]bool
}

// NewMetrics registers the metrics
//
//	archelon_instance_info{instance,scope,watch_filter}     1: the instance and where it works
//	archelon_instance_left_to_peer{peer}                    1: that one has some of the namespaces that this instance claims
//	archelon_namespaces_unowned                             namespaces that are named by instances that do not run, or selected by none
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
	}
	unowned := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "archelon_namespaces_unowned",
		Help: "How many namespaces are named by instances that do not run and by none that does, or have Clusters and are selected by none. " +
			"Nobody imports anything there.",
	}, m.unowned)
	for _, collector := range []prometheus.Collector{m.info, m.left, unowned} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Works says where this process works.
func (m *Metrics) Works(id ID, claim Claim) {
	m.info.Reset()
	where := claim.Scope.MetricsLabel()
	if claim.Selector != nil {
		where += " with labels " + claim.Selector.String()
	}
	m.info.WithLabelValues(id.String(), where, claim.WatchFilter).Set(1)
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
	m.named.Store(int64(unowned))
}

// Unselected takes what counts the namespaces that no instance selects; nil for none.
func (m *Metrics) Unselected(count func() int) {
	if count == nil {
		m.unselected.Store(nil)
		return
	}
	m.unselected.Store(&count)
}

func (m *Metrics) unowned() float64 {
	unowned := m.named.Load()
	if count := m.unselected.Load(); count != nil {
		unowned += int64((*count)())
	}
	return float64(unowned)
}
