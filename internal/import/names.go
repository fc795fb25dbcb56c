package importer

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// The annotation that names the record can be written by whoever may write the CAPI cluster, and a record is made with our rights. So a name is only
// followed if it is that of a record of this cluster, or one that we may have chosen.

// namedRecord returns the name of the record that the annotation gives, and whether it is to stay. Another one is chosen if not.
func (r *Reconciler) namedRecord(ctx context.Context, s *scope) (string, bool, error) {
	id := s.cluster.Annotations[archelonv1.RecordAnnotation]
	strategy, name, ok := r.splitID(id)
	if !ok || strategy != r.Active {
		return "", false, nil
	}
	if named := s.find(id); named != nil && (named.deleting() || named.madeFor(s.cluster)) {
		// The removal of one that is being deleted is known already, or was asked for by us: the next record gets a name of its own.
		return name, !named.deleting(), nil
	}
	misnamed, err := r.hasAnother(ctx, s)
	if err != nil || misnamed {
		return name, false, err
	}
	if strategy.Names(s.cluster, name) {
		return name, true, nil
	}
	// Without its labels the cache does not show it.
	hidden := &scope{cluster: s.cluster}
	if err := r.findNamed(ctx, hidden); err != nil {
		return name, false, err
	}
	return name, len(hidden.records) > 0, nil
}

// hasAnother reports whether the cluster has a record that the annotation does not name. The API server confirms it, for the cache may show one that
// was there before the one that is named.
func (r *Reconciler) hasAnother(ctx context.Context, s *scope) (bool, error) {
	for _, cached := range s.records {
		if cached.strategy != r.Active || !cached.madeFor(s.cluster) || cached.deleting() {
			continue
		}
		live := record{Object: cached.strategy.NewObject(), strategy: cached.strategy}
		if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(cached.Object), live.Object); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("confirming the %s: %w", cached, err)
		}
		if live.GetUID() == cached.GetUID() && live.madeFor(s.cluster) && !live.deleting() {
			return true, nil
		}
	}
	return false, nil
}

// checkNamespace refuses a name that was not chosen in this run and that a namespace has without a record: Rancher would take the namespace over,
// and delete it together with the record. An instance of named namespaces has no right to look.
func (r *Reconciler) checkNamespace(ctx context.Context, s *scope, strategy Strategy, name string) outcome.Outcome {
	key := strategy.Key(s.cluster, name)
	if s.chosen || key.Namespace != "" || len(r.Claim.Scope.Included()) > 0 {
		return outcome.Done()
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(namespaceMetadata().GetObjectKind().GroupVersionKind())
	if err := r.APIReader.List(ctx, namespaces, client.MatchingFields{"metadata.name": name}); err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("looking for a namespace of the record's name: %w", err))
	}
	if len(namespaces.Items) == 0 {
		return outcome.Done()
	}
	// After the namespace, for Rancher makes it for a record that another process of ours may just have made.
	found := &record{Object: strategy.NewObject(), strategy: strategy}
	switch err := r.APIReader.Get(ctx, key, found.Object); {
	case apierrors.IsNotFound(err):
		found.SetName(name)
		return r.rename(ctx, s, found)
	case err != nil:
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("getting the %s Rancher cluster: %w", strategy.Kind(), err))
	}
	return outcome.Done() // Creating the record tells whose it is.
}

// rename writes another name ahead, because the one that the cluster has is not free. Where the other one is not free either, nothing is written: it
// would go to and fro between the two.
func (r *Reconciler) rename(ctx context.Context, s *scope, found *record) outcome.Outcome {
	strategy, name := found.strategy, found.GetName()
	other := strategy.ProposeName(s.cluster, func(candidate string) bool {
		return candidate == name || r.taken(ctx, s.cluster, candidate)
	})
	if other == name {
		return outcome.Poll(archelonv1.ForeignRecordReason, fmt.Sprintf(
			"The %s has the name of this cluster's record and was not made for it; delete it", found), unseenRecheck)
	}
	second := &record{Object: strategy.NewObject(), strategy: strategy}
	switch err := r.APIReader.Get(ctx, strategy.Key(s.cluster, other), second.Object); {
	case err == nil && !second.madeFor(s.cluster):
		return outcome.Poll(archelonv1.ForeignRecordReason, fmt.Sprintf(
			"The %s and the %s have the names that this cluster's record may have, and were not made for it; delete one of them", found, second), unseenRecheck)
	case client.IgnoreNotFound(err) != nil:
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("getting the %s Rancher cluster: %w", strategy.Kind(), err))
	}
	if out := r.writeAhead(ctx, s, other); !out.IsDone() {
		return out
	}
	ctrl.LoggerFrom(ctx).Info("The record's name was taken; chose another one", "rancherCluster", recordID(strategy, other))
	return outcome.Poll(archelonv1.WaitingForRancherReason, "The chosen name was taken; starting over with another one", conflictRetry)
}
