package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Deletion never waits for Rancher: a record that is asked to go is Rancher's to finish, and a CAPI cluster must be able to
// leave while Rancher, or its webhook, is down. It needs neither the workload cluster nor the control plane nor the label.

// deleteRecords deletes every record that was made for this cluster, of whatever kind. The finalizer goes first: a record
// that is being deleted and still held was deleted by somebody else, and that is how such a deletion is told apart.
func (r *Reconciler) deleteRecords(ctx context.Context, s *scope) outcome.Outcome {
	r.forget(s.key())
	if err := r.findNamed(ctx, s); err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	}
	for i := range s.records {
		if !s.records[i].madeFor(s.cluster) {
			continue
		}
		if out := r.removeRecord(ctx, s, &s.records[i]); !out.IsDone() {
			return out
		}
	}
	return outcome.Done()
}

// removeRecord deletes a record, unless Rancher would delete a CAPI cluster together with it. A CAPI cluster that is being
// deleted must be able to leave, so its record is left behind then; otherwise a person decides.
func (r *Reconciler) removeRecord(ctx context.Context, s *scope, record *record) outcome.Outcome {
	twin, err := r.twinOf(ctx, record)
	switch {
	case err != nil:
	case twin && s.intent == intentDelete:
		err = r.abandonRecord(ctx, s, record)
	case twin:
		return heldByTwin(record)
	default:
		err = r.deleteRecord(ctx, record)
		if s.intent == intentDelete && apierrors.IsInternalError(err) {
			if left := patienceLeft(s.cluster, r.Clock.Now()); left > 0 {
				return outcome.Poll(archelonv1.DeletingReason, webhookAway+": "+err.Error(), min(left, webhookRecheck))
			}
			err = r.leaveRecord(ctx, s, record, err)
		}
	}
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	}
	return outcome.Done()
}

// heldByTwin stalls where a record has to stay, because Rancher would delete a CAPI cluster together with it.
func heldByTwin(record *record) outcome.Outcome {
	return outcome.Stall(archelonv1.RecordNameTakenReason, fmt.Sprintf(
		"Rancher would delete the CAPI cluster %s together with the %s, because they have the same name; delete that CAPI cluster first, or keep this import",
		record.GetName(), record))
}

// leaveRecord sees to it that a record goes which cannot be written, because a webhook of Rancher is not there to ask: after the CAPI
// cluster, instead of before. Who deleted it need not be told apart any more. A v3 record can be deleted all the same. The deletion of a v1 record may be
// refused for the same reason; Kubernetes deletes it as soon as that is possible, for its owner is gone. The deletion wakes us, whenever it comes, and
// releaseOrphans tries until the finalizer is off. It fails as before for a record to which that does not apply.
func (r *Reconciler) leaveRecord(ctx context.Context, s *scope, record *record, cause error) error {
	if record.halfLabelled() {
		return cause // releaseOrphans would not know it.
	}
	owned := slices.ContainsFunc(record.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == s.cluster.UID })
	if err := r.askToGo(ctx, record); err != nil && (!owned || !apierrors.IsInternalError(err)) {
		return errors.Join(cause, err)
	}
	ctrl.LoggerFrom(ctx).Info("The Rancher cluster is let go later, for it cannot be written now", "rancherCluster", record.id(), "because", cause.Error())
	return nil
}

// twinOf reports whether a CAPI cluster has the namespace and name of a v1 record. When Rancher deletes a v1 Cluster, it deletes such a CAPI
// cluster as well. Names are chosen so that there is none, but one may have been created since.
func (r *Reconciler) twinOf(ctx context.Context, record *record) (bool, error) {
	if record.GetNamespace() == "" || record.deleting() {
		return false, nil
	}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(record.Object), &clusterv1.Cluster{})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("looking for a CAPI cluster of the record's name: %w", err)
	}
	return err == nil, nil
}

// abandonRecord leaves a record to the administrator: nothing of ours deletes it, neither do owner references.
func (r *Reconciler) abandonRecord(ctx context.Context, s *scope, record *record) error {
	err := r.patchRecord(ctx, record, func(object client.Object) {
		hold.Import.Remove(object)
		object.SetOwnerReferences(nil)
		labels := object.GetLabels()
		delete(labels, archelonv1.OwnerUIDLabel)
		object.SetLabels(labels)
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("abandoning the %s Rancher cluster: %w", record.strategy.Kind(), err)
	}
	r.event(s, corev1.EventTypeWarning, archelonv1.RecordNameTakenReason,
		"Left the %s alone: Rancher would delete the CAPI cluster of the same name together with it", record)
	ctrl.LoggerFrom(ctx).Info("Left Rancher cluster alone, because Rancher would delete the CAPI cluster of the same name with it", "rancherCluster", record.id())
	return nil
}

// findNamed adds the record that was written ahead if the cache does not show it: a process may have died right after making it. The
// annotation that names it can be written by others, so a record of another cluster is not added.
func (r *Reconciler) findNamed(ctx context.Context, s *scope) error {
	id := s.cluster.Annotations[archelonv1.RecordAnnotation]
	strategy, name, ok := r.splitID(id)
	if !ok || s.find(id) != nil {
		return nil
	}
	object := strategy.NewObject()
	if err := r.APIReader.Get(ctx, strategy.Key(s.cluster, name), object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("getting the %s Rancher cluster: %w", strategy.Kind(), err)
	}
	if named := (record{Object: object, strategy: strategy}); named.madeFor(s.cluster) {
		s.records = append(s.records, named)
	}
	return nil
}

func (r *Reconciler) deleteRecord(ctx context.Context, record *record) error {
	if err := r.releaseRecord(ctx, record); err != nil {
		return err
	}
	return r.askToGo(ctx, record)
}

// askToGo deletes a record, whoever holds it.
func (r *Reconciler) askToGo(ctx context.Context, record *record) error {
	if record.deleting() {
		return nil
	}
	uid := record.GetUID()
	err := r.Client.Delete(ctx, record.Object, client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) && r.replaced(ctx, record) {
		err = nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the %s Rancher cluster: %w", record.strategy.Kind(), err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted Rancher cluster", "rancherCluster", record.id())
	return nil
}

// replaced reports whether the record is gone although its name is taken: by a successor that is none of ours. A conflict alone
// does not say so.
func (r *Reconciler) replaced(ctx context.Context, record *record) bool {
	current := record.strategy.NewObject()
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(record.Object), current)
	return apierrors.IsNotFound(err) || err == nil && current.GetUID() != record.GetUID()
}

// releaseRecord takes the finalizer off a record.
func (r *Reconciler) releaseRecord(ctx context.Context, record *record) error {
	err := r.patchRecord(ctx, record, hold.Import.Remove)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing the %s Rancher cluster: %w", record.strategy.Kind(), err)
	}
	return nil
}

// releaseCluster takes finalizer and record annotation off the CAPI cluster, in one write and last.
func (r *Reconciler) releaseCluster(ctx context.Context, s *scope) outcome.Outcome {
	err := r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) { hold.Imports().Drop(cluster, true) })
	if client.IgnoreNotFound(err) != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("releasing the CAPI cluster: %w", err))
	}
	return outcome.Done()
}

// observeRemoval follows a record that was deleted in Rancher: first the CAPI cluster learns of it, so that it is not
// imported again, then the record is let go. Records of an earlier cluster of this name are let go as well.
func (r *Reconciler) observeRemoval(ctx context.Context, s *scope) outcome.Outcome {
	if slices.ContainsFunc(s.derived, func(d record) bool { return d.deleting() && d.madeFor(s.cluster) }) {
		// Rancher deletes it with its v1 record, which the cache does not show without its labels.
		if err := r.findNamed(ctx, s); err != nil {
			return outcome.Fail(archelonv1.InternalErrorReason, err)
		}
	}
	for i := range s.records {
		record := &s.records[i]
		if !record.deleting() || !record.held() {
			continue
		}
		if !record.madeFor(s.cluster) {
			if err := r.releaseStranger(ctx, s, record); err != nil {
				return outcome.Fail(archelonv1.InternalErrorReason, err)
			}
			continue
		}
		removal, err := r.isRemoval(ctx, s, record)
		if err == nil && removal {
			err = r.noteRemoval(ctx, s)
		}
		if err != nil {
			return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("noting the removal in Rancher: %w", err))
		}
		if err := r.releaseRecord(ctx, record); err != nil {
			return outcome.Fail(archelonv1.InternalErrorReason, err)
		}
	}
	return outcome.Done()
}

// isRemoval reports whether a record that somebody else deletes was the cluster's place in Rancher: the one that the
// cluster names, or the last one, while it names a successor of the other kind that has yet to be created. Without a
// name on the cluster the removal is noted already.
func (r *Reconciler) isRemoval(ctx context.Context, s *scope, record *record) (bool, error) {
	switch s.cluster.Annotations[archelonv1.RecordAnnotation] {
	case record.id():
		return true, nil
	case "":
		return false, nil
	}
	if s.hasRecord() {
		return false, nil
	}
	// The successor may have been created a moment ago.
	if err := r.findNamed(ctx, s); err != nil {
		return false, err
	}
	return !s.hasRecord(), nil
}

// noteRemoval keeps the cluster out of Rancher, unless it has another record there: then that was one too many, and the other one is followed.
func (r *Reconciler) noteRemoval(ctx context.Context, s *scope) error {
	r.forget(s.key())
	other := slices.IndexFunc(s.records, func(d record) bool { return d.madeFor(s.cluster) && !d.deleting() })
	if other >= 0 {
		return r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) {
			metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, archelonv1.RecordAnnotation, s.records[other].id())
		})
	}
	s.removed = true
	return r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) {
		hold.Imports().Drop(cluster, true)
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, archelonv1.ImportedAnnotation, "true")
	})
}

// releaseStranger lets a record go that is being deleted and was not made for this cluster: for an earlier one of this name, or for one that
// nobody can tell any more. The API server is asked which cluster is the current one, for the cache may be the older of the two.
// One that names no namespace, neither by its own nor by its label, may be that of a namesake elsewhere, which has yet to learn of the deletion.
func (r *Reconciler) releaseStranger(ctx context.Context, s *scope, record *record) error {
	if !record.deleting() || !record.held() || record.GetNamespace() == "" && record.GetLabels()[archelonv1.OwnerNamespaceLabel] == "" {
		return nil
	}
	current := &clusterv1.Cluster{}
	if err := r.APIReader.Get(ctx, s.key(), current); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("confirming the CAPI cluster: %w", err)
	}
	if record.madeFor(current) {
		return nil
	}
	return r.releaseRecord(ctx, record)
}

// deleteOtherKinds deletes records that another strategy made, and waits until they are gone before the
// active one makes its own: the agent can serve one Rancher cluster only.
func (r *Reconciler) deleteOtherKinds(ctx context.Context, s *scope) outcome.Outcome {
	for i := range s.records {
		record := &s.records[i]
		if record.strategy == r.Active || !record.madeFor(s.cluster) {
			continue
		}
		if err := r.permitSuccessor(ctx, s, record); err != nil {
			return outcome.FromError(err, archelonv1.InternalErrorReason)
		}
		if out := r.removeRecord(ctx, s, record); !out.IsDone() {
			return out
		}
		return outcome.Wait(archelonv1.RecordTerminatingReason, fmt.Sprintf("The %s is being replaced by one of the kind %s", record, r.Active.Kind()))
	}
	for _, old := range s.derived {
		if old.madeFor(s.cluster) && old.deleting() {
			return outcome.Wait(archelonv1.RecordTerminatingReason, fmt.Sprintf("The earlier %s is still being deleted by Rancher", old))
		}
	}
	return outcome.Done()
}

// releaseOrphans lets go of records that are being deleted and whose CAPI cluster is gone. A record that is not being
// deleted is left alone, for its cluster may be about to be restored from a backup, unless this process has seen the cluster vanish
// together with our finalizer. What it has seen is kept for a moment, until the record must have come by its own watch; the duration is when to look again.
func (r *Reconciler) releaseOrphans(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	gone := &clusterv1.Cluster{}
	gone.Namespace, gone.Name = key.Namespace, key.Name
	records, _, err := r.recordsOf(ctx, gone)
	if err != nil {
		return 0, err
	}
	for i := range records {
		lost := !records[i].deleting() && r.holdings.lost(key, records[i].Object)
		if !lost && (!records[i].deleting() || !records[i].held() || records[i].halfLabelled()) {
			continue
		}
		if err := r.APIReader.Get(ctx, key, &clusterv1.Cluster{}); !apierrors.IsNotFound(err) {
			if err != nil {
				return 0, fmt.Errorf("confirming that the CAPI cluster is gone: %w", err)
			}
			return 0, nil
		}
		end := r.releaseRecord
		if lost {
			end = r.deleteRecord
		}
		if err := end(ctx, &records[i]); client.IgnoreNotFound(err) != nil {
			return 0, err
		}
	}
	return r.holdings.expire(key, r.Clock.Now()), nil
}
