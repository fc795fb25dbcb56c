// Package turtles is what the import knows of Rancher Turtles: what it holds, whether it runs, and what may be taken
// from it. Turtles reacts to the same label and writes the same owner labels, so two importers at work would make two
// Rancher clusters of a CAPI Cluster.
package turtles

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Park is what messages advise. Rancher's feature turtles is not for that: without it Rancher removes core CAPI.
const Park = "An administrator has to disable its importer and set the Helm value turtles.parked to true"

// Holds reports whether Turtles holds an object: a CAPI Cluster, or a Rancher cluster.
func Holds(object client.Object) bool {
	return controllerutil.ContainsFinalizer(object, archelonv1.TurtlesFinalizer)
}

// Release takes the finalizer of Turtles off an object. It does not write.
func Release(object client.Object) {
	controllerutil.RemoveFinalizer(object, archelonv1.TurtlesFinalizer)
}

// Made reports whether Turtles made a Rancher cluster: it holds a v3 one by its finalizer, and made v1 ones with an
// owner reference and without owner labels.
func Made(record client.Object) bool {
	labels := record.GetLabels()
	return Holds(record) ||
		labels[archelonv1.OwnerNameLabel] == "" && labels[archelonv1.OwnerNamespaceLabel] == "" && labels[archelonv1.OwnerUIDLabel] == ""
}

// MayTake reports whether what Turtles holds of a CAPI Cluster may be taken from it without a fight. Taken is what was
// taken of that Cluster before, and own what would be taken now.
func (l Lease) MayTake(parked bool, taken, own Taking) bool {
	return l.Left == 0 || parked && taken != own
}

// WhyNotTaken says why a CAPI Cluster stays with Turtles although it is to be taken from it, and what to do.
func WhyNotTaken(parked bool) string {
	if parked {
		return fmt.Sprintf("Rancher Turtles has set its finalizer %s again, so its importer runs although the Helm value turtles.parked is true. "+
			"Ask your administrator to disable the importer of Turtles", archelonv1.TurtlesFinalizer)
	}
	return fmt.Sprintf("Waiting: Rancher Turtles is running and manages this Cluster (finalizer %s). %s", archelonv1.TurtlesFinalizer, Park)
}
