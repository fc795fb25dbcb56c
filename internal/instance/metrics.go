package instance

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Info is the metric that says which instance this is.
type Info struct{ gauge *prometheus.GaugeVec }

// NewInfo registers the metric
//
//	archelon_instance_info{instance,scope,watch_filter}     1: the instance and what it claims
func NewInfo(registry prometheus.Registerer) (*Info, error) {
	if registry == nil {
		return nil, errors.New("metrics need a registry")
	}
	info := &Info{gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "archelon_instance_info",
		Help: "The instance that this process belongs to, and what it claims: the namespaces of its scope and its watch filter. Always 1.",
	}, []string{"instance", "scope", "watch_filter"})}
	return info, registry.Register(info.gauge)
}

// Set replaces what the metric says.
func (i *Info) Set(id ID, claim Claim) {
	i.gauge.Reset()
	i.gauge.WithLabelValues(id.String(), claim.Scope.MetricsLabel(), claim.WatchFilter).Set(1)
}
