// Package forget lets go of the Rancher clusters of a management cluster that is gone for good, in Rancher's cluster.
// Nobody else does: that a management cluster is silent says nothing about its clusters. Rancher clusters stay in
// Rancher as if somebody had imported them by hand, unless they are to be deleted. It may be interrupted and run again
// at any time.
//
// A person runs it, with these permissions in Rancher's cluster:
//
//	get of namespace kube-system
//	list of leases, with --yes also watch, to find an Archelon that serves the management cluster
//	get of clusterrolebindings.rbac.authorization.k8s.io, to find one that may still connect
//	list of clusters.management.cattle.io; with --yes also get and patch, with --delete also delete
package forget
