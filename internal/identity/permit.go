package identity

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Permits returns nil if a CAPI Cluster may use its identity, if it names none, or if its infrastructure is none of
// OCI. Else the error is an outcome.Problem: a Stall that says why not, or a Wait while there is nothing to decide on.
// Any other error means that it is not known. The note is what people should know of a cluster that may. It reads
// caches. Without a resolver, everything on OCI has to wait.
func (r *Resolver) Permits(ctx context.Context, cluster *clusterv1.Cluster) (note string, err error) {
	ref := cluster.Spec.InfrastructureRef
	user := userOf(ref.APIGroup, ref.Kind)
	if user == nil {
		return "", nil
	}
	if r == nil {
		return "", waiting("Archelon has not checked yet whether this Cluster may use its OCI identity")
	}
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name}
	switch err := r.Cached.Objects.Get(ctx, key, user); {
	case apierrors.IsNotFound(err):
		return "", waiting(fmt.Sprintf("Waiting for %s %s, which names the OCI identity of this Cluster", ref.Kind, key))
	case err != nil:
		return "", fmt.Errorf("reading %s %s: %w", ref.Kind, key, err)
	}
	verdict, err := r.Resolve(ctx, user)
	if err != nil {
		return "", err
	}
	if verdict.Allowed {
		return r.checked(ctx, user)
	}
	message := verdict.Message
	if verdict.Detail != "" {
		message += ". Its condition " + identityv1.ReadyCondition + " says what is wrong"
	}
	return "", &outcome.Problem{Kind: outcome.KindStall, Reason: verdict.Reason, Message: message}
}

// checked returns what OCI says of a cluster that may use its identity.
func (r *Resolver) checked(ctx context.Context, user User) (note string, err error) {
	if r.Checker == nil || user.IdentityRef() == nil {
		return "", nil
	}
	identity, err := r.readers().Identity(ctx, oci.KeyOf(user.IdentityRef(), user.GetNamespace()))
	if err != nil || identity == nil {
		return "", err // It was deleted just now, which wakes the import.
	}
	is, err := r.Checker.check(ctx, user.ClusterSpec(), user.GetNamespace(), identity)
	if err != nil {
		return "", err
	}
	return is.permits()
}

func waiting(message string) error {
	return &outcome.Problem{Kind: outcome.KindWait, Reason: identityv1.IdentityNotEvaluatedReason, Message: message}
}

// userOf returns an empty object of the kind, nil if it is none that names identities.
func userOf(group, kind string) User {
	switch {
	case group == identityv1.GroupName && kind == infrav1.OCIClusterKind:
		return &infrav1.OCICluster{}
	case group == identityv1.GroupName && kind == infrav1.OCIManagedClusterKind:
		return &infrav1.OCIManagedCluster{}
	default:
		return nil
	}
}
