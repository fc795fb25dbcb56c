package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/outcome"
)

// claim writes the name of the record on the CAPI cluster, together with the finalizer, before the record is made.
// The optimistic lock makes it the one decision that every process agrees on: names of v3 records are random, caches are
// stale and processes die, and still there is one name.
func (r *Reconciler) claim(ctx context.Context, s *scope) outcome.Outcome {
	name, ok, err := r.namedRecord(ctx, s)
	switch {
	case err != nil:
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	case ok && holds(s.cluster):
		return outcome.Done()
	case !ok:
		if out := s.waitForTerminating(); !out.IsDone() {
			return out
		}
		name = r.chooseName(ctx, s)
		s.chosen = true
	}
	desired, err := r.desired(s.cluster, name)
	if err != nil {
		return outcome.FromError(err, archelonv1.InternalErrorReason)
	}
	if out := r.claimDisplayName(ctx, s, desired); !out.IsDone() {
		return out
	}
	return r.writeAhead(ctx, s, name)
}

func (r *Reconciler) writeAhead(ctx context.Context, s *scope, name string) outcome.Outcome {
	err := r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) {
		s.markSwitch(cluster)
		r.hold(cluster, recordID(r.Active, name))
	})
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("writing the record's name ahead: %w", err))
	}
	s.claimed = true
	return outcome.Done()
}

// hold takes the CAPI cluster for this instance and a record.
func (r *Reconciler) hold(cluster *clusterv1.Cluster, record string) {
	hold.Imports().Take(cluster, r.Self.String(), map[string]string{archelonv1.RecordAnnotation: record})
}

// permitSuccessor takes an annotation "imported" off that was there while the cluster was imported: it had no effect
// then, and would keep the cluster out of Rancher when the record that is replaced has gone. The API server confirms
// that the record is there, for the cache may be older than the cluster: then the annotation tells of the deletion of
// this very record in Rancher.
func (r *Reconciler) permitSuccessor(ctx context.Context, s *scope, old *record) error {
	if old.deleting() {
		return nil
	}
	if _, blocked := s.cluster.Annotations[archelonv1.ImportedAnnotation]; blocked {
		if err := r.confirmStands(ctx, old); err != nil {
			return err
		}
	}
	err := r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) {
		s.markSwitch(cluster) // The name may have been written ahead long ago.
		delete(cluster.Annotations, archelonv1.ImportedAnnotation)
	})
	if err != nil {
		return fmt.Errorf("permitting the record that comes next: %w", err)
	}
	return nil
}

// confirmStands returns a Problem when a record that the cache shows is gone, or about to go.
func (r *Reconciler) confirmStands(ctx context.Context, cached *record) error {
	live := record{Object: cached.strategy.NewObject(), strategy: cached.strategy}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(cached.Object), live.Object)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("confirming the %s: %w", cached, err)
	case err != nil, live.GetUID() != cached.GetUID(), live.deleting():
		return &outcome.Problem{
			Kind: outcome.KindPoll, Reason: archelonv1.RecordTerminatingReason, After: conflictRetry,
			Message: fmt.Sprintf("The %s was deleted a moment ago; starting over", cached),
		}
	}
	return nil
}

// chooseName returns the name of a record that lost its annotation, else a new one.
func (r *Reconciler) chooseName(ctx context.Context, s *scope) string {
	for _, record := range s.records {
		if record.strategy == r.Active && record.madeFor(s.cluster) && !record.deleting() {
			return record.GetName()
		}
	}
	return r.Active.ProposeName(s.cluster, func(name string) bool { return r.taken(ctx, s.cluster, name) })
}

// taken reports whether a name must not be given to a record: a record has it, or a CAPI cluster, which
// Rancher would delete together with a v1 record of that name. Creating the record is the final test.
func (r *Reconciler) taken(ctx context.Context, cluster *clusterv1.Cluster, name string) bool {
	key := r.Active.Key(cluster, name)
	if err := r.Client.Get(ctx, key, r.Active.NewObject()); err == nil {
		return true
	}
	return key.Namespace != "" && r.Client.Get(ctx, key, &clusterv1.Cluster{}) == nil
}

// waitForTerminating waits for earlier records of this very cluster. Rancher starts the clean-up of the workload
// cluster before such a record is gone, and it would remove an agent that was installed meanwhile.
func (s *scope) waitForTerminating() outcome.Outcome {
	for _, old := range append(append([]record{}, s.records...), s.derived...) {
		if old.madeFor(s.cluster) && old.deleting() {
			return outcome.Wait(archelonv1.RecordTerminatingReason, fmt.Sprintf(
				"The earlier %s is still being deleted by Rancher, held by the finalizers %s", old, strings.Join(old.GetFinalizers(), ", ")))
		}
	}
	return outcome.Done()
}

// find returns the record with the given identity.
func (s *scope) find(id string) *record {
	for i := range s.records {
		if s.records[i].id() == id {
			return &s.records[i]
		}
	}
	return nil
}

// ensureRecord makes the record under the name that was written ahead. A record that is there already must carry
// the UID of this cluster; any other is never touched.
func (r *Reconciler) ensureRecord(ctx context.Context, s *scope) outcome.Outcome {
	strategy, name, ok := r.splitID(s.cluster.Annotations[archelonv1.RecordAnnotation])
	if !ok || strategy != r.Active {
		return outcome.Fail(archelonv1.InternalErrorReason, errors.New("the record's name was changed by somebody else; starting over"))
	}
	id := recordID(strategy, name)
	if found := s.find(id); found != nil && found.madeFor(s.cluster) {
		r.creations.forget(s.cluster.UID)
		s.record = found
		return outcome.Done()
	}
	if left := r.creations.awaited(s.cluster.UID, id, r.Clock.Now()); left > 0 {
		out := waitingForRancher()
		out.Kind, out.After = outcome.KindPoll, left
		return out
	}
	if !s.claimed {
		if out := r.confirmClaim(ctx, s); !out.IsDone() {
			return out
		}
	}
	if !strategy.Names(s.cluster, name) {
		return r.adoptOwn(ctx, s, strategy, name) // Only one that exists can have such a name.
	}
	if out := r.checkNamespace(ctx, s, strategy, name); !out.IsDone() {
		return out
	}
	desired, err := r.desired(s.cluster, name)
	if err != nil {
		return outcome.FromError(err, archelonv1.InternalErrorReason)
	}
	if !s.claimed {
		if out := r.claimDisplayName(ctx, s, desired); !out.IsDone() {
			return out
		}
	}
	if desired.Description == "" {
		desired.Description = defaultDescription
	}
	object := strategy.Render(desired)
	err = r.Client.Create(ctx, object, client.FieldOwner(fieldOwner))
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.adoptOwn(ctx, s, strategy, name)
	case isRejection(err):
		return outcome.Fail(archelonv1.RecordRejectedReason, fmt.Errorf("creating the %s Rancher cluster was refused: %w", strategy.Kind(), err))
	case err != nil:
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("creating the %s Rancher cluster: %w", strategy.Kind(), err))
	}
	s.record = &record{Object: object, strategy: strategy}
	s.created = true
	r.creations.note(s.cluster.UID, id, r.Clock.Now())
	ctrl.LoggerFrom(ctx).Info("Created Rancher cluster", "rancherCluster", s.record.id())
	return outcome.Done()
}

// confirmClaim asks the API server whether the cluster still wants the record. Without it a stale cache could bring
// back a record whose deletion another process has seen through.
func (r *Reconciler) confirmClaim(ctx context.Context, s *scope) outcome.Outcome {
	current := &clusterv1.Cluster{}
	if err := r.APIReader.Get(ctx, s.key(), current); err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("confirming the CAPI cluster: %w", err))
	}
	_, blocked := current.Annotations[archelonv1.ImportedAnnotation]
	if blocked || current.UID != s.cluster.UID || !current.DeletionTimestamp.IsZero() ||
		current.Annotations[archelonv1.RecordAnnotation] != s.cluster.Annotations[archelonv1.RecordAnnotation] ||
		current.Annotations[archelonv1.InstanceAnnotation] != s.cluster.Annotations[archelonv1.InstanceAnnotation] {
		return outcome.Poll(archelonv1.InternalErrorReason, "The CAPI cluster has changed; starting over", conflictRetry)
	}
	return outcome.Done()
}

// unseenRecheck is when a Rancher cluster that no watch shows, for it has none of our labels, is looked at again.
const unseenRecheck = 30 * time.Second

// adoptOwn looks at what exists under the chosen name: the record itself, which the cache does not show yet or, without its owner labels, any
// more, or somebody else's.
func (r *Reconciler) adoptOwn(ctx context.Context, s *scope, strategy Strategy, name string) outcome.Outcome {
	object := strategy.NewObject()
	if err := r.APIReader.Get(ctx, strategy.Key(s.cluster, name), object); err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("getting the %s Rancher cluster: %w", strategy.Kind(), err))
	}
	found := &record{Object: object, strategy: strategy}
	switch {
	case found.deleting():
		if s.find(found.id()) == nil && found.madeFor(s.cluster) {
			// Without its owner labels the cache does not show it. That of another cluster is that one's to let go.
			s.records = append(s.records, *found)
			if out := r.observeRemoval(ctx, s); !out.IsDone() {
				return out
			}
		}
		return outcome.Poll(archelonv1.RecordTerminatingReason, fmt.Sprintf(
			"The earlier %s is still being deleted by Rancher, held by the finalizers %s", found, strings.Join(found.GetFinalizers(), ", ")), unseenRecheck)
	case found.madeFor(s.cluster):
		s.record = found
		return outcome.Done()
	}
	// Somebody else was first to take the name. Nothing was made under it, so another one is chosen.
	return r.rename(ctx, s, found)
}

// isRejection tells a refusal by validation, a webhook or RBAC from a failure of the API server.
func isRejection(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsNotFound(err) || apierrors.IsNotAcceptable(err)
}
