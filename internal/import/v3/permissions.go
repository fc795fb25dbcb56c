package importv3

// What new imports of this kind need in addition. What exists needs the permissions of internal/rancher.
//
// +kubebuilder:rbac:groups=management.cattle.io,resources=clusters,verbs=create
