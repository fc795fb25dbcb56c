// The baremetal-operator of Metal3, for its CRDs. It is a module of its own, so that nothing of it enters the product.
module github.com/archelon-io/archelon/hack/metal3

go 1.26.0

require github.com/metal3-io/baremetal-operator v0.13.2
