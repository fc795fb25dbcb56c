module github.com/archelon-io/archelon/hack/schemas/crds

go 1.26.0

// Whose CRDs hack/schemas reads. The packages are no tools; a line for some
// small one is what keeps a module in this file.
tool (
	github.com/cert-manager/cert-manager/pkg/util/errors
	github.com/prometheus-operator/prometheus-operator/example
)

require (
	github.com/cert-manager/cert-manager v1.21.2 // indirect
	github.com/prometheus-operator/prometheus-operator v0.89.0 // indirect
)
