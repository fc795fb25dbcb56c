// Package env runs real Kubernetes control planes for tests and the demo: etcd,
// kube-apiserver and, on request, kube-controller-manager, on loopback and with
// RBAC on. It is controller-runtime's envtest plus what an importer's tests need
// on top: several control planes side by side, ServiceAccounts with real tokens,
// garbage collection, Deployments and Jobs, an audit log, and an API server that
// can be frozen.
//
// The binaries come from `make controlplane`, which builds them from pinned Go
// modules, or from KUBEBUILDER_ASSETS.
package env
