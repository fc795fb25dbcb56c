module github.com/archelon-io/archelon/hack/schemas/crds

go 1.26.0

// Whose CRDs hack/schemas reads. The package is no tool; a line for some
// small one is what keeps a module in this file.
tool github.com/prometheus-operator/prometheus-operator/example

require github.com/prometheus-operator/prometheus-operator v0.89.0 // indirect
