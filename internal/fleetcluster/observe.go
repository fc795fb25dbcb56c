package fleetcluster

import (
	"context"
	"fmt"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Observation is all that a run has read.
type Observation struct {
	// Cluster is nil if there is none, or if another instance imports it.
	Cluster *clusterv1.Cluster
	// Fleet are the Fleet Clusters that Rancher has created for its Rancher clusters.
	Fleet []metav1.PartialObjectMetadata
}

// observe reads, from caches. It decides nothing and writes nothing.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (Observation, error) {
	cluster := &clusterv1.Cluster{}
	switch err := r.Client.Get(ctx, key, cluster); {
	case apierrors.IsNotFound(err):
		return Observation{}, nil
	case err != nil:
		return Observation{}, fmt.Errorf("getting Cluster %s: %w", key, err)
	}
	by := cluster.Annotations[archelonv1.InstanceAnnotation]
	if !r.Claim.Covers(cluster) || by != "" && by != r.Self.String() {
		return Observation{}, nil
	}
	o := Observation{Cluster: cluster}
	rancher := &managementv3.ClusterList{}
	if err := r.Rancher.List(ctx, rancher, client.MatchingFields{ownerIndex: string(cluster.UID)}); err != nil {
		return o, fmt.Errorf("listing v3 Rancher clusters: %w", err)
	}
	for i := range rancher.Items {
		found := &rancher.Items[i]
		if !names(found, key) || found.Name == localCluster || found.Spec.FleetWorkspaceName == "" {
			continue
		}
		fleet := &metav1.PartialObjectMetadataList{}
		fleet.SetGroupVersionKind(fleetVersion().WithKind("ClusterList"))
		err := r.Rancher.List(ctx, fleet, client.InNamespace(found.Spec.FleetWorkspaceName),
			client.MatchingFields{rancherIndex: found.Name})
		if err != nil {
			return o, fmt.Errorf("listing Fleet Clusters: %w", err)
		}
		for j := range fleet.Items {
			// Rancher copies the label with the UID as well, so one without it was not created for this Cluster.
			if fleet.Items[j].Labels[archelonv1.OwnerUIDLabel] == string(cluster.UID) {
				o.Fleet = append(o.Fleet, fleet.Items[j])
			}
		}
	}
	return o, nil
}

// localCluster is the cluster that Rancher runs in. Nobody chooses what Fleet deploys there, whatever labels it has.
const localCluster = "local"

// names reports whether a Rancher cluster says that it was created for a CAPI Cluster.
func names(object client.Object, key types.NamespacedName) bool {
	labels := object.GetLabels()
	return labels[archelonv1.OwnerNamespaceLabel] == key.Namespace && labels[archelonv1.OwnerNameLabel] == key.Name
}
