package baremetal

import (
	"slices"
	"strings"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Decision is what a run is to do.
type Decision struct {
	// Actions are done in their order. What they change wakes the controller.
	Actions []Action
	// Status is what the status of the claim should be, nil to leave it alone. It is written if there are no actions, or
	// if one fails.
	Status *metal3v1.HostClaimStatus
	// Warnings are told in Events, once the status is written.
	Warnings []hostclaim.Warning
	// Waits is whether the claim would take a host if there was one, and Takes is the host that it is about to take.
	Waits bool
	Takes *types.NamespacedName
	// Left are hosts that are left to other namespaces. If nobody takes them for a time, After, the claim does.
	Left  []types.NamespacedName
	After time.Duration
	// Refusals are reported to those who administer the hosts.
	Refusals []hostclaim.Refusal
}

// Decide says what to do. It is pure.
func Decide(o Observation, now time.Time) Decision {
	claim := o.Claim
	if claim == nil {
		return Decision{Actions: astray(o)}
	}
	if o.leftToMetal3() {
		return Decision{Status: hostclaim.LeftToMetal3(claim, now)}
	}
	mine := o.owned()
	if o.Paused {
		return stay(o, mine)
	}
	var d Decision
	dropped := hostclaim.Dropped(claim, metal3v1.BareMetalFinalizer)
	switch {
	case dropped != "" && (claim.DeletionTimestamp == nil || !held(claim)):
		d = refused(claim, dropped, now)
	case claim.DeletionTimestamp != nil:
		d = release(o, mine, now)
	case !held(claim):
		d = Decision{Actions: []Action{changeClaim{claim, taken(claim), "hold it", nil}}}
	case len(mine) > 0:
		d = bound(o, mine, now)
	case o.inherited() != nil:
		d = disputed(o, now)
	case claim.Status.PendingHost != nil:
		d = bind(o, now)
	case claim.Status.BareMetalHost != nil:
		d = lost(o, now)
	case parkedOf(claim) != nil && o.Named == nil:
		d = awaited(o, now)
	case hostclaim.LostForGood(claim):
		d = unbound(o, metal3v1.HostLostReason, hostclaim.ConditionOf(claim, metal3v1.AssociatedCondition).Message, now)
	default:
		d = choose(o, now)
	}
	d.Actions = append(astray(o), d.Actions...)
	return d
}

// owned returns the hosts that the claim has, the one first that it keeps: a claim has more than one only if somebody
// else has written a consumerRef.
func (o Observation) owned() []*bmov1.BareMetalHost {
	if o.Claim == nil {
		return nil
	}
	var owned []*bmov1.BareMetalHost
	for _, host := range o.Consumed {
		if ownedBy(host, o.Claim) {
			owned = append(owned, host)
		}
	}
	if len(owned) == 0 && o.Named != nil && ownedBy(o.Named, o.Claim) {
		owned = append(owned, o.Named)
	}
	named := hostOf(o.Claim)
	slices.SortStableFunc(owned, func(a, b *bmov1.BareMetalHost) int {
		is := func(host *bmov1.BareMetalHost) bool { return named != nil && keyOf(host) == *named }
		switch {
		case is(a):
			return -1
		case is(b):
			return 1
		default:
			return strings.Compare(keyOf(a).String(), keyOf(b).String())
		}
	})
	return owned
}

// leftToMetal3 reports whether the claim is left to Metal3's own controller. A claim with a host that was taken here is
// not, whatever its finalizers are: only this controller cleans the host before it releases it.
func (o Observation) leftToMetal3() bool {
	return o.Claim != nil && hostclaim.ServedByMetal3(o.Claim) && !slices.ContainsFunc(o.Consumed, func(host *bmov1.BareMetalHost) bool {
		_, taken := host.Annotations[metal3v1.SavedAnnotation]
		return taken && ownedBy(host, o.Claim)
	})
}

// ownedBy reports whether a host is that of a claim. A consumerRef without UID is of a host that came here from another
// cluster.
func ownedBy(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim) bool {
	key, uid, ok := consumerOf(host)
	same := key == types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	return ok && same && (uid == claim.UID || uid == "")
}

// consumerOf returns the claim that a host names.
func consumerOf(host *bmov1.BareMetalHost) (key types.NamespacedName, uid types.UID, ok bool) {
	ref := host.Spec.ConsumerRef
	if ref == nil || ref.Kind != metal3v1.HostClaimKind || ref.GroupVersionKind().Group != metal3v1.GroupName {
		return key, "", false
	}
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, ref.UID, true
}

func keyOf(host *bmov1.BareMetalHost) types.NamespacedName {
	return types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
}

// stay leaves a claim as it is, but that it can be moved, and keeps no host from others which it does not take.
func stay(o Observation, mine []*bmov1.BareMetalHost) Decision {
	switch {
	case hostclaim.Moved(o.Claim):
		return Decision{}
	case len(mine) > 0:
		return Decision{Actions: park(o, mine[0])}
	case o.Claim.Status.PendingHost == nil:
		return Decision{}
	}
	after := o.Claim.Status.DeepCopy()
	after.PendingHost = nil
	return Decision{Status: after}
}

// refused is for a claim whose spec lacks what it had.
func refused(claim *metal3v1.HostClaim, why string, now time.Time) Decision {
	status, warning := hostclaim.Refused(claim, why, now)
	return Decision{Status: status, Warnings: []hostclaim.Warning{warning}}
}

// awaited is for a claim that has come here from another cluster before its host.
func awaited(o Observation, now time.Time) Decision {
	note := "Waiting for BareMetalHost " + parkedOf(o.Claim).String() + ", with which this HostClaim was paused. If that host will not come " +
		"here, remove annotation " + metal3v1.ParkedAnnotation
	return Decision{Status: statusOf(o, nil, condition{reason: metal3v1.BindingReason, message: note}, nil, now)}
}

// choose looks for a host, and writes down which one before it is touched.
func choose(o Observation, now time.Time) Decision {
	answer, left, until := fairly(o, now)
	switch {
	case answer.Host == nil && len(left) > 0:
		// It says nothing: 10,000 claims would be written for a moment.
		return Decision{Waits: true, Left: left, After: until.Sub(now)}
	case answer.Host == nil:
		d := unbound(o, answer.Reason, answer.Message, now)
		d.Refusals, d.Waits = answer.Refusals, answer.Reason != metal3v1.SelectorInvalidReason
		return d
	}
	d := unbound(o, metal3v1.BindingReason, answer.Message, now)
	d.Takes = new(keyOf(answer.Host))
	d.Status.PendingHost = &metal3v1.ObjectReference{Namespace: answer.Host.Namespace, Name: answer.Host.Name}
	return d
}

// bind takes the host that was written down, if it is still to be had.
func bind(o Observation, now time.Time) Decision {
	if o.Named == nil {
		return unbound(o, metal3v1.NoBareMetalHostReason, "The chosen host was deleted. Archelon looks for another one", now)
	}
	if why := hostclaim.Check(o.question(), o.Named); why != "" {
		return unbound(o, metal3v1.NoBareMetalHostReason, "The chosen host is not available: "+why, now)
	}
	return Decision{Actions: []Action{changeHost{o.Named, claimed(o.Named, o.Claim), "give it to its claim", nil}}}
}

func (o Observation) question() hostclaim.Question {
	return hostclaim.Question{
		Claim: o.Claim, Requester: o.Requester, Hosts: o.Candidates, Policies: o.Policies, Reserved: o.Reserved,
	}
}

// lost is for a claim whose host does not know it any more. One that was in use is not replaced: what ran on it may
// still run, and its successor is for people to decide on.
func lost(o Observation, now time.Time) Decision {
	was := o.Claim.Status.BareMetalHost
	if !inUse(o.Claim) || !had(o.Claim, was) {
		return unbound(o, metal3v1.NoBareMetalHostReason, "Looking for another host", now)
	}
	note := "Lost BareMetalHost " + was.Namespace + "/" + was.Name + ": it was deleted, or another consumer has it. Workloads may still run on it, so " +
		"this HostClaim gets no other host. Delete this HostClaim and create a new one, or remove its annotation " + metal3v1.LostHostAnnotation +
		" to give it another host"
	d := unbound(o, metal3v1.HostLostReason, note, now)
	d.Warnings = append(d.Warnings, hostclaim.Warning{Reason: metal3v1.HostLostReason, Note: note})
	return d
}

// inUse reports whether something was, or was being, written to the host of a claim.
func inUse(claim *metal3v1.HostClaim) bool {
	condition := hostclaim.ConditionOf(claim, metal3v1.ProvisionedCondition)
	return condition.Status == "True" || condition.Reason == metal3v1.ProvisioningReason
}

// bound keeps a claim and its host in step. Further hosts are released.
func bound(o Observation, mine []*bmov1.BareMetalHost, now time.Time) Decision {
	host := mine[0]
	d := Decision{Actions: releases(mine[1:], o.Secrets)}
	p := planSecrets(o, host)
	p.problems = append(p.problems, imageProblems(host, o.Claim)...)
	d.Actions = append(d.Actions, p.copies...)
	if after := synchronized(host, o.Claim, p); after != nil {
		d.Actions = append(d.Actions, changeHost{host, after, "have it as its claim says", nil})
	} else if len(p.problems) == 0 || !asks(o.Claim) {
		d.Actions = append(d.Actions, p.surplus...) // With a problem, the host still names them.
	}
	d.associate(o.Claim, host, "", hostclaim.CopiesOf(host, o.Policies[host.Namespace], o.Requester))
	if !restoring(host) {
		d.Status = statusOf(o, host, associated(o, host), p.problems, now)
	}
	return d
}

// unbound is for a claim without a host.
func unbound(o Observation, reason, message string, now time.Time) Decision {
	d := Decision{Actions: leftOver(o)}
	d.associate(o.Claim, nil, lostFor(reason, o.Claim), hostclaim.Copies{})
	d.Status = statusOf(o, nil, condition{reason: reason, message: message}, nil, now)
	return d
}

// leftOver removes what a claim has left on a host that it has lost to another consumer, and the copies of its Secrets
// beside that host.
func leftOver(o Observation) []Action {
	var actions []Action
	if host := hostOf(o.Claim); host != nil {
		if o.Named != nil && keyOf(o.Named) == *host {
			if after := disowned(o.Named); after != nil {
				actions = append(actions, changeHost{o.Named, after, "take off it what its earlier claim has left there", nil})
			}
		}
		for _, r := range hostclaim.Roles() {
			found := o.Secrets[copyOf(*host, r)]
			if found != nil && isCopy(found) && found.Labels[metal3v1.ClaimUIDLabel] == string(o.Claim.UID) {
				actions = append(actions, removeCopy{found})
			}
		}
	}
	return actions
}

// release has what a claim has given up, then the claim itself.
func release(o Observation, mine []*bmov1.BareMetalHost, now time.Time) Decision {
	if !held(o.Claim) {
		return Decision{}
	}
	if len(mine) == 0 {
		return Decision{Actions: append(leftOver(o), changeClaim{o.Claim, dropped(o.Claim), "release it", nil})}
	}
	actions := marks(o.Claim, mine)
	if len(actions) == 0 {
		actions = releases(mine, o.Secrets)
	}
	return Decision{
		Actions: actions,
		Status:  statusOf(o, mine[0], condition{true, metal3v1.HostClaimDeletingReason, cleaningOf(mine[0])}, nil, now),
	}
}

// marks has the hosts of a claim be marked as unhealthy if the claim is. That comes before they are released.
func marks(claim *metal3v1.HostClaim, hosts []*bmov1.BareMetalHost) []Action {
	var actions []Action
	for _, host := range hosts {
		if after := host.DeepCopy(); hostclaim.PassMark(claim, metal3v1.HostClaimKind, after) {
			actions = append(actions, changeHost{host, after, "mark it as unhealthy, as its claim is", nil})
		}
	}
	return actions
}
