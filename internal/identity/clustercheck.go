package identity

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/outcome"
)

// check is what OCI says of one cluster.
type check struct {
	finding
	// target is what OCI is to be asked, if ask is true.
	target target
	ask    bool
}

// secretNow returns the Secret of an identity, and the state that the cache has of it, the zero value if there is none.
func (r *Resolver) secretNow(ctx context.Context, identity types.NamespacedName) (types.NamespacedName, Version, error) {
	found, err := r.readers().Identity(ctx, identity)
	if err != nil {
		return types.NamespacedName{}, Version{}, err
	}
	secret, ok := r.Scope.Policy.SecretOf(found)
	if !ok {
		return types.NamespacedName{}, Version{}, nil
	}
	version, err := r.versionOf(ctx, secret)
	return secret, version, err
}

// versionOf returns the state that the cache has of a Secret, the zero value if there is none.
func (r *Resolver) versionOf(ctx context.Context, secret types.NamespacedName) (Version, error) {
	metadata := SecretMetadata()
	switch err := r.Cached.Metadata.Get(ctx, secret, metadata); {
	case apierrors.IsNotFound(err):
		return Version{}, nil
	case err != nil:
		return Version{}, fmt.Errorf("reading the metadata of Secret %s: %w", secret, err)
	}
	return VersionOf(metadata), nil
}

// check returns what is known of a cluster that may use its identity. It reads caches. A Checker that is nil knows
// nothing of any.
func (c *Checker) check(
	ctx context.Context, spec *infrav1.ClusterSpec, namespace string, identity *identityv1.OCIClusterIdentity,
) (check, error) {
	policy := c.Resolver.Scope.Policy
	secret, ok := policy.SecretOf(identity)
	if !ok {
		return check{finding: unknown(infrav1.PrincipalNotCheckedReason, "The principal is of the process of CAPOCI, with which Archelon cannot ask OCI")}, nil
	}
	to, instead := targetOf(spec, namespace, policy, c.Hosts)
	if instead.result != "" {
		return check{finding: instead}, nil
	}
	var err error
	to.secret = secret
	if to.version, err = c.Resolver.versionOf(ctx, secret); err != nil {
		return check{}, err
	}
	if to.authorities != (types.NamespacedName{}) {
		if to.trusts, err = c.Resolver.versionOf(ctx, to.authorities); err != nil {
			return check{}, err
		}
	}
	return check{target: to, ask: true, finding: c.finding(to)}, nil
}

// readChecks reads what is known of the clusters that name the identity.
func (r *Reconciler) readChecks(ctx context.Context, o *Observation) error {
	if r.Checker == nil || o.Identity == nil {
		return nil
	}
	o.Checks = make(map[userID]check, len(o.Clusters))
	for _, cluster := range o.Clusters {
		found, err := r.Checker.check(ctx, cluster.Spec, cluster.Namespace.Name, o.Identity)
		if err != nil {
			return err
		}
		o.Checks[cluster.id] = found
	}
	return nil
}

// wants returns what OCI is to be asked, with the cluster to ask with: of those that may use the identity alone.
func wants(o Observation, verdicts map[userID]oci.Verdict) map[target]asker {
	targets := map[target]asker{}
	for _, cluster := range o.Clusters {
		is, ok := o.Checks[cluster.id]
		if !ok || !is.ask || !verdicts[cluster.id].Allowed || cluster.Ref == nil {
			continue
		}
		if _, ok := targets[is.target]; !ok {
			targets[is.target] = asker{
				identity:  types.NamespacedName{Namespace: o.Identity.Namespace, Name: o.Identity.Name},
				namespace: cluster.Namespace.Name, ref: *cluster.Ref,
			}
		}
	}
	return targets
}

// findings returns what OCI said of clusters, by cluster.
func findings(o Observation) map[userID]finding {
	all := make(map[userID]finding, len(o.Checks))
	for id, is := range o.Checks {
		all[id] = is.finding
	}
	return all
}

// maxSaid is of how many clusters a message says what OCI said.
const maxSaid = 3

// verifiedCondition returns the condition IdentityVerified, nil if it stays as it is: what was not asked changes
// nothing, and neither does a new process.
func verifiedCondition(o Observation, verdicts map[userID]oci.Verdict) *identityv1.Condition {
	before := o.Identity.Condition(infrav1.IdentityVerifiedCondition)
	said, reason, count := map[string][]string{}, map[string]string{}, 0
	for _, cluster := range o.Clusters {
		is, ok := o.Checks[cluster.id]
		if !ok || !verdicts[cluster.id].Allowed {
			continue
		}
		count++
		result := is.result
		if is.reason == infrav1.VerificationPendingReason {
			result = pending
		}
		if reason[result] == "" {
			reason[result] = is.reason
		}
		said[result] = append(said[result], fmt.Sprintf("%s %s: %s", cluster.id.kind, cluster.id, is.message))
	}
	condition := &identityv1.Condition{Type: infrav1.IdentityVerifiedCondition, Status: corev1.ConditionUnknown}
	switch {
	case count == 0:
		condition.Reason, condition.Message = infrav1.NoClusterReason, "No cluster uses the identity, so there is nothing to ask OCI about"
	case len(said[rejected]) > 0:
		condition.Status, condition.Severity = corev1.ConditionFalse, identityv1.SeverityError
		condition.Reason, condition.Message = reason[rejected], some(said[rejected])
	case len(said[pending]) > 0 && before != nil:
		return nil
	case len(said[unreachable]) > 0:
		condition.Reason, condition.Message = reason[unreachable], some(said[unreachable])
	case len(said[pending]) > 0:
		condition.Reason, condition.Message = reason[pending], some(said[pending])
	default:
		condition.Status, condition.Reason = corev1.ConditionTrue, infrav1.VerifiedReason
	}
	return condition
}

// some joins texts, and counts those that are too many.
func some(texts []string) string {
	if len(texts) <= maxSaid {
		return strings.Join(texts, ". ")
	}
	return fmt.Sprintf("%s. %d more", strings.Join(texts[:maxSaid], ". "), len(texts)-maxSaid)
}

// permits says what a finding means for an import. What OCI refuses stalls it, what has not been asked has it wait for
// a moment, and what OCI does not say is a note.
func (f finding) permits() (note string, err error) {
	switch {
	case f.result == rejected:
		return "", &outcome.Problem{Kind: outcome.KindStall, Reason: f.reason, Message: f.message}
	case f.result == pending:
		return "", &outcome.Problem{Kind: outcome.KindWait, Reason: infrav1.VerificationPendingReason, Message: f.message}
	case f.result == unreachable && f.reason != infrav1.PrincipalNotCheckedReason:
		return fmt.Sprintf("Whether the OCI principal works is not known (%s). %s", f.reason, f.message), nil
	default:
		return "", nil
	}
}

// sooner returns the shorter of two times to wait, where zero is for ever.
func sooner(one, other time.Duration) time.Duration {
	if one == 0 || other > 0 && other < one {
		return other
	}
	return one
}
