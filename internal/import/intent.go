package importer

import archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"

// intend decides what to do. Deletion and the user's "false" come before everything; a missing
// label leaves things as they are, so what is imported stays imported.
func (d *deciding) intend() intent {
	switch {
	case d.outside, d.withdrawn, d.behind:
		return intentNothing
	case d.cluster == nil:
		return intentOrphans
	case d.kept:
		return intentNothing
	case !d.responsible(d.Observation):
		return intentLeave
	}
	want, _ := d.wanted()
	imported := d.cluster.Annotations[archelonv1.RecordAnnotation] != "" || holds(d.cluster) || d.hasRecord()
	switch {
	case paused(d.cluster):
		return intentPause
	case !d.cluster.DeletionTimestamp.IsZero():
		return intentDelete
	case want == exclude && imported:
		return intentUnimport
	case want == include || imported:
		return intentImport
	default:
		return intentIdle
	}
}

// wanted says what the import label asks for. Where there is no label, the selector of the installation decides. A
// cluster that Rancher provisioned is in Rancher already.
func (d *deciding) wanted() (choice, error) {
	want, err := chosen(d.cluster.Labels, d.namespace)
	if err == nil && want == leave && d.Selector.selects(d.cluster) && !provisionedByRancher(d.cluster) {
		return include, nil
	}
	return want, err
}

// responsible reports whether this instance handles the cluster. Deletion is handled whatever the watch filter says:
// every step of it is idempotent, and a label that was taken away must not leave a finalizer behind. leaveBehind is
// about the deletion of a record of such a cluster.
func (r Rules) responsible(o *Observation) bool {
	return r.covers(o) || !o.cluster.DeletionTimestamp.IsZero() && holds(o.cluster)
}

// covers reports whether the cluster is what this instance claims.
func (r Rules) covers(o *Observation) bool {
	return r.Claim.Covers(o.cluster) && r.Claim.Selects(o.namespace)
}

// lets reports whether this instance has to let another one have the cluster: the labels of its namespace have changed.
func (r Rules) lets(o *Observation) bool {
	return r.Claim.Selector != nil && !r.responsible(o) && o.cluster.Annotations[archelonv1.InstanceAnnotation] == r.Self.String()
}
