package rolekeeper

import (
	"context"
	"fmt"
	"slices"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// lookAgain is the pause before the rights go after something was let go: a reconcile that had begun may still have made a record then.
const lookAgain = time.Second

// ending reports whether a namespace is being deleted. Kubernetes deletes what is in a namespace after it has noted that, so a namespace without
// the note stays.
func (r *Reconciler) ending(ctx context.Context, name string) (bool, error) {
	namespace := metadata(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.APIReader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return deleting(namespace), nil
}

// release lets go of the clusters that name this instance in a namespace which stays, and of their records, as long as it has the rights. Both stay
// as they are otherwise: whoever is given the namespace goes on with them. It returns how much it found. Without the rights nothing is found.
func (r *Reconciler) release(ctx context.Context, namespace string) (int, error) {
	clusters, err := r.list(ctx, clusterv1.GroupVersion.WithKind("ClusterList"), client.InNamespace(namespace))
	if err != nil {
		return 0, err
	}
	// Records first: a cluster that is let go may be gone at once, and its records must not be held then.
	found, err := r.releaseRecords(ctx, namespace, clusters)
	if err != nil {
		return found, err
	}
	for i := range clusters {
		cluster := &clusters[i]
		if cluster.Annotations[archelonv1.InstanceAnnotation] != r.Self.String() || !held(cluster) {
			continue
		}
		found++
		if err := r.letGo(ctx, cluster); err != nil {
			return found, err
		}
		log := ctrl.LoggerFrom(ctx).WithValues("cluster", client.ObjectKeyFromObject(cluster).String(), "rancherCluster", cluster.Annotations[archelonv1.RecordAnnotation])
		log.Info("Let go of a CAPI cluster, whose namespace is taken from this instance")
		if deleting(cluster) {
			log.Info("The CAPI cluster was being deleted: its Rancher cluster stays, delete it in Rancher")
		}
	}
	return found, nil
}

// releaseRecords lets go of the records of CAPI clusters in a namespace, but for those of clusters that name another instance. One may have been
// made a moment after its cluster was let go, which names nobody then.
func (r *Reconciler) releaseRecords(ctx context.Context, namespace string, clusters []metav1.PartialObjectMetadata) (int, error) {
	ours := sets.Set[string]{}
	for i := range clusters {
		if by := clusters[i].Annotations[archelonv1.InstanceAnnotation]; by == "" || by == r.Self.String() {
			ours.Insert(string(clusters[i].UID))
		}
	}
	v1, err := r.list(ctx, provisioningv1.SchemeGroupVersion.WithKind("ClusterList"), client.InNamespace(namespace), client.HasLabels{archelonv1.OwnerUIDLabel})
	if err != nil {
		return 0, err
	}
	v3, err := r.list(ctx, managementv3.SchemeGroupVersion.WithKind("ClusterList"),
		client.HasLabels{archelonv1.OwnerUIDLabel}, client.MatchingLabels{archelonv1.OwnerNamespaceLabel: namespace})
	if err != nil {
		return 0, err
	}
	found := 0
	for _, record := range slices.Concat(v1, v3) {
		if !ours.Has(record.Labels[archelonv1.OwnerUIDLabel]) || !held(&record) {
			continue
		}
		found++
		if err := r.letGo(ctx, &record); err != nil {
			return found, err
		}
	}
	return found, nil
}

// letGo takes the finalizer off, and off a CAPI cluster the name of this instance.
func (r *Reconciler) letGo(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	before := object.DeepCopy()
	controllerutil.RemoveFinalizer(object, archelonv1.ImportFinalizer)
	delete(object.Annotations, archelonv1.InstanceAnnotation)
	// The lock keeps it from being one that another instance has taken over since.
	err := r.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("letting %s %s go: %w", before.Kind, client.ObjectKeyFromObject(before), err)
	}
	return nil
}

// list reads from the API server: the cache does not have a namespace that has left the scope.
func (r *Reconciler) list(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	// A RoleBinding to another role may grant less.
	if err := r.APIReader.List(ctx, list, options...); client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("looking for what is held: %w", err)
	}
	return list.Items, nil
}

func held(object client.Object) bool {
	return controllerutil.ContainsFinalizer(object, archelonv1.ImportFinalizer)
}
