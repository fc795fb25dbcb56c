package importer

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
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
	case !early:
		return waitControlPlane("")
	case !d.Early.some():
		return waitControlPlane(". Annotation " + archelonv1.EarlyImportAnnotation +
			" has no effect, because the administrator of Archelon allows no early imports")
	case d.lacks(askEarlyPlace{}):
		return ask(askEarlyPlace{})
	case !d.place:
		return waitControlPlane(fmt.Sprintf(", and its namespace has %d Rancher clusters without a control plane, "+
			"which is as many as the administrator of Archelon allows", d.EarlyPerNamespace))
	default:
		return pass()
	}
}

func waitControlPlane(why string) Decision {
	return wait(archelonv1.WaitingForControlPlaneReason, "The control plane is not available yet"+why)
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

// keepOffBefore keeps off a workload cluster whose control plane never was available: its record was created early.
func (d *deciding) keepOffBefore() Decision {
	if manual, err := d.manualDelivery(d.cluster.Annotations); err != nil || manual {
		return pass() // The manifest may be needed to create the control plane, and is applied by others.
	}
	if controlPlaneUp(d.cluster) || initialized(d.cluster) || d.management.connected || d.management.served() {
		return pass()
	}
	return wait(archelonv1.WaitingForControlPlaneReason,
		"The Rancher cluster is there before the control plane, as was asked for; Rancher's agent is installed when the control plane is available")
}

// createdEarly reports whether a record was there before the control plane: what it took to connect
// is not what an import takes.
func createdEarly(cluster *clusterv1.Cluster, made *record) bool {
	available := meta.FindStatusCondition(cluster.GetConditions(), clusterv1.ClusterControlPlaneAvailableCondition)
	return made != nil && available != nil && available.LastTransitionTime.After(made.GetCreationTimestamp().Time)
}
