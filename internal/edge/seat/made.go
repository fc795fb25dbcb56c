package seat

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Labels of a Lease that an Archelon has made, and that no chart knows.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "archelon"
)

// MadeSelector selects the Leases that Archelon has made itself: seats, and what remembers who has had them.
func MadeSelector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{managedByLabel: managedBy})
}

// Many returns where the seat of one of many management clusters is that an Archelon in Rancher's cluster serves:
// beside what registers them, and so is what remembers who has had it.
func Many(clients kubernetes.Interface, namespace, instance string, origin types.UID) Place {
	leases := clients.CoordinationV1()
	return Place{
		Origin: origin, Rancher: leases, RancherNamespace: namespace, Made: true,
		Management: leases, Memory: types.NamespacedName{Namespace: namespace, Name: memoryNameOf(origin, instance)},
	}
}

// made is the seat where there is none.
func made(p Place) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.RancherNamespace, Name: LeaseName(p.Origin),
		Labels: map[string]string{managedByLabel: managedBy, archelonv1.ManagementClusterLabel: string(p.Origin)},
	}}
}

// giveBack takes a remembered name off a seat. What was made without a chart is deleted: a chart could not make it
// any more.
func (p Place) giveBack(ctx context.Context, lease *coordinationv1.Lease, names *memory) error {
	holder := sightOf(lease).holder
	if holder != "" && !names.has(holder) {
		return nil // Somebody else needs it.
	}
	leases := p.Rancher.Leases(p.RancherNamespace)
	if p.Made && MadeSelector().Matches(labels.Set(lease.Labels)) {
		err := leases.Delete(ctx, lease.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
		})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if holder == "" {
		return nil
	}
	lease.Spec = coordinationv1.LeaseSpec{}
	_, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
