// Package fleetcluster labels Fleet Clusters with the ClusterClass of their CAPI Clusters.
//
// Rancher creates a Fleet Cluster for each Rancher cluster, in the Fleet workspace of that. It copies labels to it, but
// none with cattle.io in the key. Turtles gives Fleet Clusters two labels with such keys, by which people choose
// clusters. Rancher removes nothing that it has not copied, so these two are written to the Fleet Cluster itself.
//
// It observes, decides and acts. Nothing else of a Fleet Cluster is written, and without label
// management.cattle.io/cluster-name, by which Rancher names the v3 Rancher cluster, nothing at all.
package fleetcluster
