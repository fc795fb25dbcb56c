package members

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

// Observation is all that a run has read, and what came of what it did.
type Observation struct {
	// Cluster is nil if there is none.
	Cluster *clusterv1.Cluster
	// Ours is whether this instance imports it, or nobody does.
	Ours bool
	// Before is the condition that it has, nil for none.
	Before *metav1.Condition
	// Rancher are the names of its v3 Rancher clusters that are not being deleted. There can be two
	// while one replaces the other.
	Rancher []string
	// Bindings are those that were created here for this incarnation of the Cluster.
	Bindings []managementv3.ClusterRoleTemplateBinding
	// Pending are the names of bindings whose place Rancher has yet to prepare, and Refused says
	// by name why others cannot be.
	Pending map[string]bool
	Refused map[string]string
}

// observe reads, from caches. It decides nothing and writes nothing.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (Observation, error) {
	o := Observation{Pending: map[string]bool{}, Refused: map[string]string{}}
	cluster := &clusterv1.Cluster{}
	switch err := r.Client.Get(ctx, key, cluster); {
	case apierrors.IsNotFound(err):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("getting Cluster %s: %w", key, err)
	}
	by := cluster.Annotations[archelonv1.InstanceAnnotation]
	o.Cluster, o.Before = cluster, r.written.Of(cluster, archelonv1.RancherMembersCondition)
	o.Ours = r.Claim.Covers(cluster) && (by == "" || by == r.Self.String())
	if !o.Ours {
		return o, nil
	}
	of := client.MatchingFields{ownerIndex: string(cluster.UID)}
	clusters, bindings := &managementv3.ClusterList{}, &managementv3.ClusterRoleTemplateBindingList{}
	if err := r.Rancher.List(ctx, clusters, of); err != nil {
		return o, fmt.Errorf("listing v3 Rancher clusters: %w", err)
	}
	for i := range clusters.Items {
		if found := &clusters.Items[i]; names(found, key) && found.DeletionTimestamp.IsZero() && found.Name != localCluster {
			o.Rancher = append(o.Rancher, found.Name)
		}
	}
	if err := r.Rancher.List(ctx, bindings, of); err != nil {
		return o, fmt.Errorf("listing ClusterRoleTemplateBindings: %w", err)
	}
	for i := range bindings.Items {
		if names(&bindings.Items[i], key) && isOurs(&bindings.Items[i], cluster.UID) {
			o.Bindings = append(o.Bindings, bindings.Items[i])
		}
	}
	return o, nil
}

// names reports whether an object says that it was created for a CAPI Cluster.
func names(object client.Object, key types.NamespacedName) bool {
	labels := object.GetLabels()
	return labels[archelonv1.OwnerNamespaceLabel] == key.Namespace && labels[archelonv1.OwnerNameLabel] == key.Name
}

// localCluster is the cluster that Rancher runs in. Nobody is given anything there, whatever labels it has.
const localCluster = "local"

// binding returns the one of a name in the namespace of a Rancher cluster, nil if there is none.
func (o Observation) binding(rancher, name string) *managementv3.ClusterRoleTemplateBinding {
	for i := range o.Bindings {
		if o.Bindings[i].Namespace == rancher && o.Bindings[i].Name == name {
			return &o.Bindings[i]
		}
	}
	return nil
}
