package importer

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// A cluster can show in Rancher before its control plane is available, if somebody asks for it. Nothing is read of its
// workload cluster until then, nor written.

// early reads whether the Rancher cluster of a CAPI cluster is to be created before its control plane is available.
// Booleans are read as in the import label.
func (r Rules) early(annotations map[string]string) (bool, error) {
	value := annotations[archelonv1.EarlyImportAnnotation]
	if value == "" {
		return r.Early == EarlyAlways, nil
	}
	early, err := strconv.ParseBool(value)
	if err != nil {
		return false, errors.New(`it must be "true" or "false"`)
	}
	return early, nil
}

// waitForControlPlane waits until the workload cluster can be expected to answer, unless the Rancher cluster is asked
// for before. A record that exists is followed whatever the control plane does; only creating one needs it.
func (d *deciding) waitForControlPlane() Decision {
	early, err := d.early(d.cluster.Annotations)
	switch {
	case err != nil:
		return fail(invalidSetting(archelonv1.EarlyImportAnnotation, err))
	case d.hasRecord(), controlPlaneUp(d.cluster):
		return pass()
	case !d.Early.some():
		allow := `ask your administrator to set the Helm value import.early to "` + string(EarlyOnRequest) + `"`
		if !early {
			return d.waitControlPlane(showBefore + allow + ", and set " + earlyAnnotation)
		}
		return d.waitControlPlane("Annotation " + archelonv1.EarlyImportAnnotation + " has no effect. " + showBefore + allow)
	case !early:
		return d.waitControlPlane(showBefore + "set " + earlyAnnotation)
	case d.lacks(askEarlyPlace{}):
		return ask(askEarlyPlace{})
	case !d.place:
		return d.waitControlPlane(fmt.Sprintf("Namespace %s has %d Rancher clusters without a control plane, as many as the "+
			"administrator of Archelon allows. %swait until one of these has a control plane, or ask your administrator to "+
			"increase the Helm value import.earlyPerNamespace", d.key.Namespace, d.EarlyPerNamespace, showBefore))
	default:
		return pass()
	}
}

// What gets past the wait for a control plane.
const (
	showBefore      = "To show this Cluster in Rancher before its control plane is available, "
	earlyAnnotation = "annotation " + archelonv1.EarlyImportAnnotation + ` to "true"`
)

// waitControlPlane says what a control plane lacks by the words of Cluster API, and what gets past that.
func (d *deciding) waitControlPlane(past string) Decision {
	d.quoted = quoted(d.cluster)
	return wait(archelonv1.WaitingForControlPlaneReason, waitingFor(d.cluster, d.quoted)+". "+past)
}

// askEarlyPlace asks whether the namespace may have one more Rancher cluster without a control plane.
type askEarlyPlace struct{}

func (askEarlyPlace) String() string { return "a place for a Rancher cluster without a control plane" }

func (askEarlyPlace) read(ctx context.Context, r *Reconciler, o *Observation) error {
	held, err := r.placesHeld(ctx, o.key.Namespace)
	if err == nil {
		o.place = r.places.take(o.cluster, held, r.EarlyPerNamespace, r.Clock.Now())
	}
	return err
}

// keepOffBefore keeps off a workload cluster whose control plane was not up yet: its record was created early.
func (d *deciding) keepOffBefore() Decision {
	if manual, err := d.manualDelivery(d.cluster.Annotations); err != nil || manual {
		return pass() // The manifest may be needed to create the control plane, and is applied by others.
	}
	if controlPlaneUp(d.cluster) || d.management.connected || d.management.served() {
		return pass()
	}
	return d.waitControlPlane("This Cluster is shown in Rancher already, and Archelon installs Rancher's agent when its " +
		"control plane is available")
}

// createdEarly reports whether a record was there before the control plane: what it took to connect
// is not what an import takes.
func createdEarly(cluster *clusterv1.Cluster, made *record) bool {
	return made != nil && upSince(cluster).After(made.GetCreationTimestamp().Time)
}
