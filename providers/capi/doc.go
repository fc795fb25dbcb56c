// Package capi is a provider of multicluster-runtime for Cluster API: it engages each provisioned CAPI Cluster of a
// management cluster with a multi-cluster manager, under the name "<namespace>/<name>".
//
//	provider, err := capi.New(localMgr, capi.Options{})
//	mcMgr, err := mcmanager.WithMultiCluster(localMgr, provider, capi.EndSources())
//
// No cluster can block another one, the manager or a controller:
//
//   - Each cluster has a state machine of its own. Connections are made side by side, and retries of clusters that do
//     not answer have places of their own, so that they never hold up one that is new.
//   - Informers are handed out at once and filled in the background, because multicluster-runtime holds a lock of the
//     controller while a cluster is engaged. A kind that a cluster lacks or refuses concerns that kind of that cluster
//     only; Status says which one.
//   - Reads from a cache, requests and answers are bounded. A cluster that does not answer is disconnected: Get and
//     requests fail at once with ErrNotConnected, and informers wait for the connection without asking.
//
// A kubeconfig that changes is taken over without a restart. The connection with the new one is made and probed before
// it takes the place of the old one, below the clients and informers of the cluster: watches go on where they were, and
// nothing is received twice or missed. A request that is refused because its credentials were replaced meanwhile is
// repeated with the new ones.
//
// A connection that works is kept for a while (Timing.Rotation) when the kubeconfig is deleted, cannot be read or does
// not connect: a slip is not to cut it. A kubeconfig that is refused ends it at once.
//
// Credentials are never shared between clusters. The default kubeconfig rules accept inline data only: see
// DefaultGetSecret. README.md has permissions, limits, and how to come from the provider of multicluster-runtime.
package capi
