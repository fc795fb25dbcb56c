// Package fleet keeps connections to the workload clusters of imported CAPI Clusters, for controllers that run across
// all of them, and shows on each CAPI Cluster where that stands: condition FleetEngaged.
//
// The connections are those of package providers/capi. This package says which Clusters are meant, and observes,
// decides and acts on what the provider says of each.
package fleet
