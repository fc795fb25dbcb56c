package importer

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// The rules that come before an import, and end it for reasons that are in the management cluster itself.

// nothing is done to a cluster that is not this instance's, or whose latest state has yet to come.
func (d *deciding) nothing() Decision {
	switch {
	case d.withdrawn && !d.forgotten:
		return act(forgetCluster{withdrawn: true})
	case d.withdrawn:
		return endAfter(withdrawnRetry)
	case d.kept:
		return endAfter(0) // It is woken when the other one has left, or does not run any more.
	case d.behind:
		// The watch is about to bring what we wrote ourselves. Its event wakes us, unless it is filtered out.
		return endAfter(conflictRetry)
	default:
		return pass()
	}
}

// takeOver puts this instance on a cluster that another one worked on, before anything else is done to it: a write that
// the other one has sent before it was frozen fails then, because the cluster has changed. A new import is marked when
// its record's name is written ahead.
func (d *deciding) takeOver() Decision {
	previous := d.cluster.Annotations[archelonv1.InstanceAnnotation]
	begun := d.cluster.Annotations[archelonv1.RecordAnnotation] != "" || holds(d.cluster)
	if !begun || previous == d.Self.String() {
		return pass()
	}
	what := fmt.Sprintf("take it over from instance %q", previous)
	return d.change(what, "taking over the CAPI cluster", func(cluster *clusterv1.Cluster) {
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, archelonv1.InstanceAnnotation, d.Self.String())
	})
}

// letOthers takes this instance off a cluster whose namespace it does not select any more, as the last that
// it does there: another instance begins when it sees that. What is held stays held, and is released by
// whoever sees to the deletion.
func (d *deciding) letOthers() Decision {
	switch {
	case !d.lets(d.Observation):
		return pass()
	case !d.forgotten:
		return act(forgetCluster{})
	case d.lacks(askJob{}):
		return ask(askJob{})
	case d.busy:
		return endAfter(0) // The end of the work wakes the cluster.
	}
	return d.change("leave it to the instance that selects its namespace", "leaving the CAPI cluster to others", func(cluster *clusterv1.Cluster) {
		delete(cluster.Annotations, archelonv1.InstanceAnnotation)
	})
}

func (*deciding) pause() Decision {
	return wait(archelonv1.PausedReason, "This Cluster is paused. Resume it to continue the import")
}

// checkSelection stops where the import label cannot be read. What is imported stays imported when nothing selects it
// any more: a mistake in the values of the chart is no reason to disconnect clusters. It is told.
func (d *deciding) checkSelection() Decision {
	want, err := d.wanted()
	if err != nil {
		return stall(archelonv1.InvalidImportLabelReason, outcome.Sentence(err.Error()))
	}
	d.unselected = want == leave
	return pass()
}

// checkPermission stops where an annotation forbids a new import.
func (d *deciding) checkPermission() Decision {
	by, err := keptOut(d.cluster.Annotations)
	if by == "" && err == nil || d.hasRecord() {
		return pass()
	}
	if named, look := d.named(); look && holds(d.cluster) {
		// The annotation may have been there all the time, and the record only have lost the label
		// by which the cache knows it.
		return ask(named)
	}
	if !d.stopped {
		return act(stopWork{})
	}
	if err != nil {
		return fail(invalidSetting(archelonv1.KeptOutAnnotation, err))
	}
	return removedInRancher(by)
}

// checkPrincipal keeps a cluster from being imported while its infrastructure may not work with its principal. What is
// imported stays imported, and it is told: what is taken away in another system is no reason to disconnect a cluster.
func (d *deciding) checkPrincipal() Decision {
	if d.lacks(askPrincipal{}) {
		return ask(askPrincipal{})
	}
	if d.hasRecord() || d.cluster.Annotations[archelonv1.RecordAnnotation] != "" {
		return pass()
	}
	return fail(d.unpermitted)
}

// refused is what to say about a cluster that was imported before its principal was refused, or whose principal is not
// known to work.
func (o *Observation) refused() string {
	out := outcome.FromError(o.unpermitted, archelonv1.InternalErrorReason)
	if out.Kind != outcome.KindStall {
		return o.principalNote
	}
	return fmt.Sprintf("Imported before, but its OCI identity is now refused (%s). %s", out.Reason, out.Message)
}
