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
