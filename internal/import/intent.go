package importer

import archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"

// intent is what a run sets out to do.
type intent int

const (
	// intentUnknown is that of a run that has decided nothing yet.
	intentUnknown intent = iota
	// intentNothing is for a cluster that is not this instance's to look at, or not now.
	intentNothing
	// intentOrphans releases what a cluster has left behind that is gone.
	intentOrphans
	// intentLeave leaves a cluster to others, and sees to it that its record can go.
	intentLeave
	// intentPause does nothing: the cluster is paused.
	intentPause
	// intentDelete removes the record because the CAPI cluster goes.
	intentDelete
	// intentUnimport removes the record because the import label says so.
	intentUnimport
	// intentHandOver leaves the record to Rancher Turtles.
	intentHandOver
	// intentImport creates the record, or keeps it.
	intentImport
	// intentIdle leaves a cluster alone that is neither selected nor imported.
	intentIdle
)

// String returns the name of the intent as people read it.
func (i intent) String() string {
	return [...]string{
		"unknown", "nothing", "release orphans", "leave to others", "pause", "delete", "un-import", "hand over", "import", "idle",
	}[i]
}

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
	case d.assigned().to == archelonv1.ManagedByTurtles && (imported || want == include):
		return intentHandOver
	case want == exclude && imported:
		return intentUnimport
	case want == include || imported:
		return intentImport
	default:
		return intentIdle
	}
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
