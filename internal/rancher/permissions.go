package rancher

// What the import needs in Rancher's cluster, wherever Archelon runs and whichever kind new imports have: Rancher
// clusters of both kinds are served, repaired and deleted. Registration tokens are in namespaces whose names Rancher
// makes up, in Secrets whose names are fixed: that of the token, which an agent is installed with, and that of the
// one which it gets afterwards. A list or watch is within such names if a field selector limits it to one of them.
// Rancher asks for the permission to add clusters to a Fleet workspace when a v3 Cluster names one. Only the creation
// of a Rancher cluster depends on the kind of new imports: it is in internal/import/v1 and v3. v1 Rancher clusters
// are in the namespaces of their CAPI Clusters.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=crt-token-default-token;crt-token-system,verbs=get;list;watch
// +kubebuilder:rbac:groups=management.cattle.io,resources=clusters,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=management.cattle.io,resources=clusterregistrationtokens,verbs=list;watch
// +kubebuilder:rbac:groups=management.cattle.io,resources=fleetworkspaces,resourceNames=fleet-default,verbs=fleetaddcluster
// +kubebuilder:rbac:groups=management.cattle.io,resources=settings,verbs=list;watch
// +kubebuilder:rbac:groups=provisioning.cattle.io,resources=clusters,verbs=get;list;watch;patch;delete,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.management.cattle.io;clusters.provisioning.cattle.io;clusterregistrationtokens.management.cattle.io;settings.management.cattle.io,verbs=list;watch
