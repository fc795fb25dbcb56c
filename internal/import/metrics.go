package importer

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/archelon-io/archelon/internal/outcome"
)

// Metrics are the counts and times of the import.
type Metrics struct {
	stops   *prometheus.CounterVec
	imports *prometheus.HistogramVec
	steps   *prometheus.HistogramVec
	present *inventory
}

// NewMetrics registers the metrics of the import:
//
//	archelon_import_stops_total{phase,outcome,reason}       reconciles that stopped before the end of their phases
//	archelon_import_duration_seconds{strategy}              from the making of a record to its connection
//	archelon_import_agent_step_duration_seconds{step}       steps of installing the agent, in seconds
//	archelon_import_clusters{status,reason,cluster_namespace}
//	                                                        clusters by their condition, counted by the leader
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	if registry == nil {
		return nil, errors.New("metrics need a registry")
	}
	m := &Metrics{
		stops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "archelon_import_stops_total",
			Help: "Reconciles of the import that stopped before the end of their phases, by phase, outcome and condition reason.",
		}, []string{"phase", "outcome", "reason"}),
		imports: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "archelon_import_duration_seconds",
			Help:    "Time from the creation of a Rancher cluster to its first connection, in seconds.",
			Buckets: []float64{.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600},
		}, []string{"strategy"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "archelon_import_agent_step_duration_seconds",
			Help:    "Time that a step of installing Rancher's agent took, in seconds.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"step"}),
		present: newInventory(),
	}
	for _, collector := range []prometheus.Collector{m.stops, m.imports, m.steps, m.present} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) stopped(phase string, out outcome.Outcome) {
	m.stops.WithLabelValues(phase, out.Kind.String(), out.Reason).Inc()
}

func (m *Metrics) imported(strategy string, took time.Duration) {
	m.imports.WithLabelValues(strategy).Observe(took.Seconds())
}

// timeJob starts the clock for a step. The returned function ends it and starts the next; an empty name
// ends the last. A step that fails is not observed: its time says nothing about the work.
func (m *Metrics) timeJob(step string) func(next string) {
	began := time.Now()
	return func(next string) {
		m.steps.WithLabelValues(step).Observe(time.Since(began).Seconds())
		step, began = next, time.Now()
	}
}
