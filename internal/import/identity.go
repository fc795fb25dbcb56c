package importer

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// identity knows Rancher's cluster by the UID of its namespace kube-system, which it reads once.
type identity struct {
	mu  sync.Mutex
	uid types.UID
}

// of returns the UID. It lists, within a name: that needs no permission that the watch on Namespaces does not have.
func (i *identity) of(ctx context.Context, reader client.Reader) (types.UID, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.uid != "" {
		return i.uid, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := reader.List(ctx, list, client.MatchingFields{"metadata.name": metav1.NamespaceSystem}); err != nil {
		return "", fmt.Errorf("getting namespace %s: %w", metav1.NamespaceSystem, err)
	}
	for n := range list.Items {
		i.uid = list.Items[n].UID
	}
	return i.uid, nil
}

// checkIdentity refuses to install an agent into the cluster that Rancher runs in, unless the CAPI cluster asks for it. Rancher shows that
// cluster already, as local, and deleting the Rancher cluster would have Rancher clean up where it runs. One that was connected before
// was allowed then, and costs no request.
func (r *Reconciler) checkIdentity(ctx context.Context, i *installation) error {
	if i.management.served() || i.want.managementCluster {
		return nil
	}
	own, err := r.identity.of(ctx, r.liveInRancher())
	if err != nil {
		return err
	}
	uid, err := i.cluster.UID(ctx)
	if err != nil {
		return fmt.Errorf("asking the workload cluster who it is: %w", err)
	}
	if own == "" || uid != own {
		return nil
	}
	return &outcome.Problem{
		Kind: outcome.KindStall, Reason: archelonv1.ManagementClusterReason,
		Message: fmt.Sprintf("The kubeconfig leads to the cluster that Rancher itself runs in, which Rancher shows already as local: set label %s to \"false\" "+
			"on this Cluster, or annotation %s to \"true\" to have Rancher's agent installed there", archelonv1.ImportLabel, archelonv1.ImportManagementClusterAnnotation),
	}
}
