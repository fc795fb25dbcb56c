package hold

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Disown ends the hold on something that was created for an object, and takes the labels off that say for which one and
// from which management cluster. Nothing of this project knows it any more.
func (h Holding) Disown(created client.Object) {
	h.Drop(created, true)
	left := created.GetLabels()
	for _, label := range []string{
		archelonv1.OwnedLabel, archelonv1.OwnerNameLabel, h.NamespaceLabel, h.UIDLabel,
		archelonv1.ManagementClusterLabel,
	} {
		delete(left, label)
	}
	created.SetLabels(left)
}
