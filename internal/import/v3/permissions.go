package importv3

// What this strategy needs besides. Rancher asks for the workspace when a v3 Cluster names one; the v3 Cluster behind a
// v1 Cluster is Rancher's own.
//
// +kubebuilder:rbac:groups=management.cattle.io,resources=clusters,verbs=create
// +kubebuilder:rbac:groups=management.cattle.io,resources=fleetworkspaces,resourceNames=fleet-default,verbs=fleetaddcluster
