package remote

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Decision is what a run is to do.
type Decision struct {
	// Actions are done in their order. What they change wakes the controller.
	Actions []Action
	// Status is what the status of the source should be, nil to leave it alone. It is written if there are no actions, or
	// if one fails.
	Status *metal3v1.HostClaimStatus
	// Warnings are told in Events, once the status is written.
	Warnings []hostclaim.Warning
}

// Decide says what to do. It is pure.
func Decide(o Observation, now time.Time) Decision {
	claim := o.Claim
	if claim != nil && hostclaim.ServedByMetal3(claim) && known(claim) == nil {
		// That controller knows no kinds. It does not know of a target, which would stay in the other cluster.
		return Decision{Status: hostclaim.LeftToMetal3(claim, now)}
	}
	if claim == nil || o.Paused || o.Wait > 0 {
		return Decision{}
	}
	if why := hostclaim.Dropped(claim, metal3v1.RemoteFinalizer); why != "" && claim.DeletionTimestamp == nil {
		status, warning := hostclaim.Refused(claim, why, now)
		return Decision{Status: status, Warnings: []hostclaim.Warning{warning}}
	}
	switch {
	case claim.DeletionTimestamp != nil:
		return release(o, now)
	case !held(claim):
		return Decision{Actions: []Action{changeSource{claim, taken(claim), "hold it", nil}}}
	case o.Problem != nil && *o.Problem == yetToAnswer() && current(claim):
		return Decision{}
	case o.Problem != nil:
		return Decision{Status: apart(claim, *o.Problem, now)}
	case o.Target != nil && !ours(o):
		return Decision{Status: apart(claim, Problem{
			metal3v1.RemoteConflictReason,
			"The remote cluster already has HostClaim " + o.Target.Namespace + "/" + o.Target.Name + ", which does not belong to this HostClaim. If it is not needed, " +
				"delete it there. Otherwise delete this HostClaim and create it again: it then gets another name there",
		}, now)}
	case elsewhere(o):
		return Decision{Status: apart(claim, elsewhereProblem(), now)}
	case o.Earlier != nil:
		return Decision{Status: apart(claim, earlierProblem(o.Earlier), now)}
	case o.Target == nil && hostclaim.LostForGood(claim), lost(o) && had(claim) && wasBound(claim):
		return gone(o, now)
	case o.Target == nil && (claim.Status.Remote == nil || lost(o)):
		return announce(o, now)
	case o.Target != nil && o.Target.DeletionTimestamp != nil:
		return Decision{Actions: inform(o), Status: mirrored(o, &Problem{
			metal3v1.RemoteDeletingReason, "Waiting until the remote HostClaim is gone: another user has deleted it there",
		}, now)}
	default:
		return inStep(o, now)
	}
}

// current reports whether a source says of what it asks for now how it stands. That is kept until the other cluster
// answers: a process that starts has all sources wait for that, and would write to each of them twice.
func current(claim *metal3v1.HostClaim) bool {
	return hostclaim.ConditionOf(claim, metal3v1.RemoteSyncedCondition).ObservedGeneration == claim.Generation
}

// ours reports whether what has the name of the target is it.
func ours(o Observation) bool { return o.Target.Labels[metal3v1.OriginLabel] == originKept(o.Claim) }

// elsewhere reports whether the credentials lead to another place than the target is in. A target that is there, and is
// the same one, proves that the place is the same, whatever it is called by now.
func elsewhere(o Observation) bool {
	is, kept := o.Claim.Status.Remote, false
	if is == nil {
		// A target that was found by its origin proves the place: a source that has moved knows no more of it.
		is, kept = known(o.Claim), true
	}
	if is == nil || o.Target != nil && (kept || o.Target.UID == is.UID) {
		return false
	}
	return is.Server != o.Place.Server || is.Authority != o.Place.Authority || is.Namespace != o.Place.Namespace
}

func elsewhereProblem() Problem {
	return Problem{
		metal3v1.RemoteIdentityChangedReason,
		"The credentials lead to another server or namespace than before, and the remote HostClaim is not there. " +
			"Restore the credentials, or set annotation " + metal3v1.AbandonAnnotation + "=true and delete this HostClaim",
	}
}

// earlierProblem says how a source takes over the target of an earlier one of its name. It says nothing in the words of
// the other cluster.
func earlierProblem(earlier *metav1.PartialObjectMetadata) Problem {
	uid := earlier.Annotations[metal3v1.OriginUIDAnnotation]
	if uid == "" || len(validation.IsValidLabelValue(uid)) > 0 {
		uid = "the UID of that HostClaim"
	}
	return Problem{
		metal3v1.RemoteConflictReason,
		"A HostClaim in the remote cluster belongs to an earlier HostClaim of this name, and may have a host. To use it, set " +
			"annotation " + metal3v1.OriginUIDAnnotation + " of this HostClaim to " + uid + ". Otherwise delete it in the remote cluster",
	}
}

// lost reports whether there was a target, and is none any more.
func lost(o Observation) bool {
	is := known(o.Claim)
	return o.Target == nil && is != nil && is.UID != ""
}

// wasBound reports whether a source had a host when its target was last seen. Its successor would get another one, and
// what ran on the first may still run: that is for people to decide on.
func wasBound(claim *metal3v1.HostClaim) bool {
	return hostclaim.ConditionOf(claim, metal3v1.AssociatedCondition).Status == "True" ||
		hostclaim.ConditionOf(claim, metal3v1.ProvisionedCondition).Reason == metal3v1.ProvisioningReason
}

// had reports whether the metadata of a source say that it had the target which its status names. They are written
// before the status says that there is a host, and no request writes both: a status that was forged loses nothing.
func had(claim *metal3v1.HostClaim) bool {
	is, kept := known(claim), keptTarget(claim)
	return is != nil && kept != nil && is.UID == kept.UID
}

// gone is for a source whose target was deleted by others while it had a host.
func gone(o Observation, now time.Time) Decision {
	const note = "The remote HostClaim was deleted, and it had a host. Workloads may still run there, so Archelon does not create it again. " +
		"Delete this HostClaim, or remove its annotation " + metal3v1.LostHostAnnotation + " to create a new remote HostClaim"
	d := Decision{Actions: removals(o), Status: lostStatus(o.Claim, note, now)}
	if o.Claim.Annotations[metal3v1.LostHostAnnotation] == "" {
		after := o.Claim.DeepCopy()
		after.Annotations = hostclaim.Set(after.Annotations, metal3v1.LostHostAnnotation, lostThere)
		d.Actions = append(d.Actions, changeSource{o.Claim, after, "have it say that its host is lost", nil})
	}
	if !hostclaim.LostForGood(o.Claim) {
		d.Warnings = []hostclaim.Warning{{Reason: metal3v1.HostLostReason, Note: note}}
	}
	return d
}

// announce writes down where the target is going to be, before it is created there.
func announce(o Observation, now time.Time) Decision {
	status := apart(o.Claim, Problem{metal3v1.RemoteConnectingReason, "Creating the remote HostClaim"}, now)
	status.Remote = at(o)
	return Decision{Status: status}
}

// at says where the target is.
func at(o Observation) *metal3v1.RemoteReference {
	is := &metal3v1.RemoteReference{
		Server: o.Place.Server, Authority: o.Place.Authority, Namespace: o.Place.Namespace, Name: targetName(originKept(o.Claim)),
	}
	if o.Target != nil {
		is.UID = o.Target.UID
	}
	return is
}

// inStep keeps a source and its target in step.
func inStep(o Observation, now time.Time) Decision {
	var d Decision
	p := planSecrets(o)
	d.Actions = append(d.Actions, p.copies...)
	if target := o.Target; target == nil {
		d.Actions = append(d.Actions, createTarget{o.Claim, wanted(o, p)})
	} else if after := wanted(o, p); after != nil {
		d.Actions = append(d.Actions, changeTarget{o.Claim, target, after, edited(o, after)})
	} else {
		d.Actions = append(d.Actions, p.surplus...)
	}
	d.Actions = append(d.Actions, inform(o)...)
	d.Status = mirrored(o, p.problem(), now)
	return d
}

// inform has a source tell what its target tells.
func inform(o Observation) []Action {
	from, after := informed(o)
	if after == nil {
		return nil
	}
	return []Action{changeSource{from, after, "have it tell what its target tells", nil}}
}

// release has the target deleted, what goes with it removed, and then the source released.
func release(o Observation, now time.Time) Decision {
	claim := o.Claim
	drop := changeSource{claim, dropped(claim), "release it", nil}
	switch {
	case !held(claim):
		return Decision{}
	case abandoned(claim):
		if known(claim) != nil {
			drop.warning = &hostclaim.Warning{
				Reason: "RemoteAbandoned", Note: "Did not delete the remote HostClaim, because annotation " + metal3v1.AbandonAnnotation + " is true",
			}
		}
		return Decision{Actions: []Action{drop}}
	case known(claim) == nil && !moved(claim):
		return Decision{Actions: []Action{drop}} // Nothing was created.
	case o.Problem != nil:
		return Decision{Status: leaving(apart(claim, stuck(*o.Problem), now), claim)}
	case o.Target != nil && ours(o):
		d := Decision{Status: leaving(mirrored(o, &Problem{
			metal3v1.RemoteDeletingReason, "Waiting until the remote HostClaim is deleted",
		}, now), claim)}
		if after := o.Target.DeepCopy(); hostclaim.PassMark(claim, metal3v1.HostClaimKind, after) {
			d.Actions = []Action{changeTarget{claim, o.Target, after, nil}} // Its host must have that before it is given back.
		} else if o.Target.DeletionTimestamp == nil {
			d.Actions = []Action{deleteTarget{claim, o.Target}}
		}
		return d
	case elsewhere(o):
		return Decision{Status: leaving(apart(claim, stuck(elsewhereProblem()), now), claim)}
	default:
		if left := removals(o); len(left) > 0 {
			return Decision{Actions: left}
		}
		return Decision{Actions: []Action{drop}}
	}
}

// stuck says how to delete a source without its target.
func stuck(why Problem) Problem {
	if why.Reason != metal3v1.RemoteIdentityChangedReason {
		why.Message += ". Until then the remote HostClaim cannot be deleted. To leave it there, set annotation " + metal3v1.AbandonAnnotation +
			"=true"
	}
	return why
}
