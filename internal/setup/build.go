package setup

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/archelon-io/archelon/internal/version"
)

// registerBuild registers the metric
//
//	archelon_build_info{version,revision,goversion}     1: what this process was built from
func registerBuild(registry prometheus.Registerer, build version.Build) error {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "archelon_build_info",
		Help: "The version and the commit that this process was built from, and the version of Go that built it. Always 1.",
	}, []string{"version", "revision", "goversion"})
	gauge.WithLabelValues(build.Version, build.Revision, build.GoVersion).Set(1)
	return registry.Register(gauge)
}

// newSynced registers the metric
//
//	archelon_caches_synced     1: this process has received what it works with; 0: it waits for rights or CRDs, or begins
func newSynced(registry prometheus.Registerer) (prometheus.Gauge, error) {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "archelon_caches_synced",
		Help: "1 if this replica has received what it works with, whether it leads or not. 0 while it waits for CRDs of CAPI and Rancher, or for rights in the first of its namespaces, and when it starts.",
	})
	return gauge, registry.Register(gauge)
}

// newLacking registers the metric
//
//	archelon_namespaces_without_rights     how many of its namespaces this process may not work in
func newLacking(registry prometheus.Registerer) (prometheus.Gauge, error) {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "archelon_namespaces_without_rights",
		Help: "How many of the namespaces that this instance names it leaves out, because it lacks rights there, or they do not exist. This replica found it out, whether it leads or not.",
	})
	return gauge, registry.Register(gauge)
}
