package importv1

// What this strategy needs besides. Rancher clusters of the other strategy are cleaned up,
// so all else is needed always.
//
// +kubebuilder:rbac:groups=provisioning.cattle.io,resources=clusters,verbs=create,namespace=scope
