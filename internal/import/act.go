package importer

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
)

// changeCluster changes metadata of the CAPI cluster if the cached copy is current.
type changeCluster struct {
	before, after *clusterv1.Cluster
	what, doing   string
	// claims: it writes the name of the record ahead; removes: it notes that the record was deleted in Rancher.
	claims, removes bool
	// optional: the cluster may be gone.
	optional bool
}

func (a changeCluster) String() string {
	return fmt.Sprintf("CAPI cluster %s: %s", client.ObjectKeyFromObject(a.before), a.what)
}

func (a changeCluster) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	// The removal is told of although nothing may be written: users see then why the cluster is not in Rancher.
	o.removed = o.removed || a.removes
	after := a.after.DeepCopy()
	err := r.patchLocked(ctx, a.before, after)
	if a.optional && apierrors.IsNotFound(err) {
		o.cluster = after
		return outcome.Done()
	}
	if err != nil {
		return failure(a.doing, err)
	}
	o.cluster = after
	r.holdings.note(after)
	if after.DeletionTimestamp.IsZero() || len(after.Finalizers) > 0 {
		r.writes.note(after)
	} else {
		r.writes.forget(after.UID)
	}
	o.claimed = o.claimed || a.claims
	return outcome.Done()
}

// changeRecord changes metadata of a record if the copy is current.
type changeRecord struct {
	record      record
	after       client.Object
	what, doing string
	// adopts: it takes the record over from Turtles; abandons: it leaves the record to the administrator; releases: it
	// releases one that somebody else deletes; ends: it releases one that is about to be deleted.
	adopts, abandons, releases, ends bool
	// optional: the record may be gone.
	optional bool
}

func (a changeRecord) String() string { return fmt.Sprintf("%s: %s", a.record, a.what) }

func (a changeRecord) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	known := a.record
	known.Object, _ = a.after.DeepCopyObject().(client.Object)
	known.ending = a.ends
	err := r.patchLocked(ctx, a.record.Object, known.Object)
	if err != nil && (!a.optional || !apierrors.IsNotFound(err)) {
		return failure(a.doing, err)
	}
	o.renew(known)
	o.adopted, o.released = o.adopted || a.adopts, o.released || a.releases
	if a.adopts {
		ctrl.LoggerFrom(ctx).Info("Adopted Rancher cluster of Rancher Turtles", "rancherCluster", known.id())
	}
	if a.abandons {
		o.abandoned = &known
		ctrl.LoggerFrom(ctx).Info("Left Rancher cluster alone, because Rancher would delete the CAPI cluster of the same name with it",
			"rancherCluster", known.id())
	}
	return outcome.Done()
}

// createRecord creates a record under the name that was written ahead.
type createRecord struct {
	strategy Strategy
	object   *unstructured.Unstructured
}

func (a createRecord) String() string {
	return fmt.Sprintf("%s: create it", record{Object: a.object, strategy: a.strategy})
}

func (a createRecord) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	made := record{Object: a.object.DeepCopy(), strategy: a.strategy, settled: true}
	err := r.inRancher().Create(ctx, made.Object, client.FieldOwner(fieldOwner))
	doing := fmt.Sprintf("creating the %s Rancher cluster", a.strategy.Kind())
	switch {
	case apierrors.IsAlreadyExists(err):
		o.occupied = true
		return outcome.Done()
	case isRejection(err):
		return outcome.Fail(archelonv1.RancherClusterRejectedReason, fmt.Errorf("%s was refused: %w", doing, err))
	case err != nil:
		return failure(doing, err)
	}
	o.records = append(o.records, made)
	r.creations.note(o.cluster.UID, made.id(), r.Clock.Now())
	ctrl.LoggerFrom(ctx).Info("Created Rancher cluster", "rancherCluster", made.id())
	return outcome.Done()
}

// isRejection tells a refusal by validation, a webhook or RBAC from a failure of the API server.
func isRejection(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsNotAcceptable(err)
}

// keepRecord leaves a record as it is whose CAPI cluster vanished without having been deleted, and says so.
type keepRecord struct{ record record }

func (a keepRecord) String() string { return fmt.Sprintf("%s: keep it", a.record) }

func (a keepRecord) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	ctrl.LoggerFrom(ctx).Info("The CAPI Cluster is gone without having been deleted: its Rancher cluster stays as it is. If it is not to come back, delete the "+
		"Rancher cluster in Rancher", "rancherCluster", a.record.id())
	r.holdings.forget(o.key)
	o.holding = ""
	return outcome.Done()
}

// endRecord takes the finalizer off a record and deletes it. The finalizer goes first: a record that is being deleted
// and still held was deleted by somebody else, and that is how such a deletion is told apart.
type endRecord struct {
	record record
	// patient: that a webhook does not answer is for the rules to decide on; locked: only the version that was decided on
	// is deleted. A CAPI cluster that is being deleted stays so, whatever became of its record: that goes in any version.
	patient, locked bool
}

func (a endRecord) String() string { return fmt.Sprintf("%s: release and delete it", a.record) }

func (a endRecord) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	known := a.record
	err := r.releaseAndDelete(ctx, &known, a.locked)
	if a.patient && apierrors.IsInternalError(err) {
		o.refusals[known.id()] = err
		return outcome.Done()
	}
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	}
	known.going = true
	o.renew(known)
	return outcome.Done()
}

func (r *Reconciler) releaseAndDelete(ctx context.Context, known *record, locked bool) error {
	if known.held() {
		before := known.Object
		known.Object, _ = before.DeepCopyObject().(client.Object)
		hold.Import.Remove(known.Object)
		if err := r.patchLocked(ctx, before, known.Object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("releasing the %s Rancher cluster: %w", known.strategy.Kind(), err)
		}
	}
	return r.askToGo(ctx, *known, locked)
}

// askToGo deletes a record, whoever holds it; if it is locked, in the version that is known.
func (r *Reconciler) askToGo(ctx context.Context, known record, locked bool) error {
	if known.deleting() {
		return nil
	}
	uid, version := known.GetUID(), known.GetResourceVersion()
	preconditions := client.Preconditions{UID: &uid}
	if locked {
		preconditions.ResourceVersion = &version
	}
	err := r.inRancher().Delete(ctx, known.Object, preconditions)
	if apierrors.IsConflict(err) && r.replaced(ctx, known) {
		err = nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the %s Rancher cluster: %w", known.strategy.Kind(), err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted Rancher cluster", "rancherCluster", known.id())
	return nil
}

// replaced reports whether the record is gone although its name is taken: by a successor that is none of ours. A
// conflict alone does not say so.
func (r *Reconciler) replaced(ctx context.Context, known record) bool {
	current := known.strategy.NewObject()
	err := r.liveInRancher().Get(ctx, client.ObjectKeyFromObject(known.Object), current)
	return apierrors.IsNotFound(err) || err == nil && current.GetUID() != known.GetUID()
}

// leaveRecord sees to it that a record goes which cannot be written, because a webhook of Rancher is not there to ask:
// after the CAPI cluster, instead of before. Who deleted it need not be told apart any more. A v3 record can be deleted
// all the same. The deletion of a v1 record may be refused for the same reason; Kubernetes deletes it as soon as that
// is possible, for its owner is gone. The deletion wakes us, whenever it comes, and releaseOrphans tries until the
// finalizer is off.
type leaveRecord struct {
	record record
	// owned: the CAPI cluster is its owner for Kubernetes.
	owned bool
	cause error
}

func (a leaveRecord) String() string {
	return fmt.Sprintf("%s: delete it, and release it when that is possible", a.record)
}

func (a leaveRecord) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	if err := r.askToGo(ctx, a.record, false); err != nil && (!a.owned || !apierrors.IsInternalError(err)) {
		return outcome.Fail(archelonv1.InternalErrorReason, errors.Join(a.cause, err))
	}
	known := a.record
	known.going, known.left = true, true
	o.renew(known)
	ctrl.LoggerFrom(ctx).Info("The Rancher cluster is released later, because it cannot be written now",
		"rancherCluster", known.id(), "because", a.cause.Error())
	return outcome.Done()
}

// updateRecord brings a record in line with its CAPI cluster, by a patch that carries its UID.
type updateRecord struct {
	record record
	patch  []byte
}

func (a updateRecord) String() string { return fmt.Sprintf("%s: update it", a.record) }

func (a updateRecord) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	known := a.record
	known.Object, _ = a.record.DeepCopyObject().(client.Object)
	if err := r.patchUID(ctx, known.Object, a.patch); err != nil {
		return outcome.Fail(archelonv1.RancherClusterRejectedReason, fmt.Errorf("updating the Rancher cluster: %w", err))
	}
	known.settled = true
	o.renew(known)
	ctrl.LoggerFrom(ctx).Info("Updated Rancher cluster", "rancherCluster", known.id())
	return outcome.Done()
}

// updateManagement changes the v3 Cluster behind a record, by a patch that carries its UID.
type updateManagement struct {
	name  string
	patch []byte
	// displayName is the one that the v3 Cluster gets, if it gets another one.
	displayName string
}

func (a updateManagement) String() string {
	if a.displayName != "" {
		return fmt.Sprintf("v3 Rancher cluster %s: give it the display name %q", a.name, a.displayName)
	}
	return fmt.Sprintf("v3 Rancher cluster %s: update it", a.name)
}

func (a updateManagement) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	known := o.managements[a.name]
	object := known.object.DeepCopy()
	doing, news := "updating the v3 Rancher cluster", "Updated v3 Rancher cluster"
	if a.displayName != "" {
		doing, news = "renaming the v3 Rancher cluster", "Renamed Rancher cluster"
	}
	if err := r.patchUID(ctx, object, a.patch); err != nil {
		return outcome.Fail(archelonv1.RancherClusterRejectedReason, fmt.Errorf("%s: %w", doing, err))
	}
	after := *known
	after.object = object
	after.renamed, after.synced = known.renamed || a.displayName != "", known.synced || a.displayName == ""
	o.managements[a.name] = &after
	ctrl.LoggerFrom(ctx).Info(news, "rancherCluster", a.name, "displayName", a.displayName)
	return outcome.Done()
}

// reserveName reserves a display name for the cluster.
type reserveName struct{ name string }

func (a reserveName) String() string { return fmt.Sprintf("reserve the display name %q", a.name) }

func (a reserveName) do(_ context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	o.reserved[a.name] = r.reserved.take(rancher.FoldDisplayName(a.name), o.cluster.UID, r.Clock.Now())
	return outcome.Done()
}

// stopWork ends what is under way in the workload cluster, and drops what is kept for that.
type stopWork struct{}

func (stopWork) String() string { return "end the work in the workload cluster" }

func (stopWork) do(_ context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	r.forget(o.key)
	o.stopped = true
	return outcome.Done()
}

// forgetCluster drops what is known of a cluster that is gone, or that this instance handles no more.
type forgetCluster struct {
	// withdrawn: the namespace was taken from this instance; the role keeper lets go of what is held there.
	withdrawn bool
}

func (forgetCluster) String() string { return "forget the cluster" }

func (a forgetCluster) do(_ context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	if o.cluster != nil {
		r.steps.forget(o.cluster.UID)
	} else {
		r.forgetIncarnation(r.incarnations.of(o.key))
	}
	r.forgetAll(o.key)
	if a.withdrawn {
		r.holdings.forget(o.key)
	}
	o.forgotten = true
	return outcome.Done()
}
