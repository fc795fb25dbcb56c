package machines

import (
	"slices"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Decision is what a run is to do.
type Decision struct {
	// Actions are done in their order. What they change wakes the controller.
	Actions []Action
	// Problem is what the user of the Machine has to correct. It is reported in an Event.
	Problem string
}

// Decide says what to do. It is pure.
func Decide(o Observation) Decision {
	d := decide(o)
	for _, rest := range o.Rest {
		d.Actions = append(d.Actions, decide(rest).Actions...)
	}
	return d
}

func decide(o Observation) Decision {
	m := o.Machine
	marked := passMark(o)
	switch {
	case o.Paused:
		return Decision{}
	case marked != nil:
		return Decision{Actions: []Action{*marked}}
	case m == nil:
		if !o.Gone {
			return Decision{}
		}
		return leave(o)
	case o.Ownerless && m.DeletionTimestamp == nil:
		return Decision{Problem: ownerless}
	case o.Claim == nil && o.Proxy == nil:
		return begin(o)
	case adopts(o):
		return Decision{Actions: []Action{adopt{Pair{o.Claim, o.Proxy}, m}}}
	case owned(o) != "":
		return replace(o)
	case m.DeletionTimestamp != nil && o.Proxy != nil && done(o.Proxy):
		return leave(o) // The provider has done with it.
	case o.Proxy == nil && waits(o.Claim) && m.DeletionTimestamp == nil && m.Problem == "":
		return wait(o)
	default:
		return inStep(o)
	}
}

// passMark marks the claim as unhealthy if its proxy is, nil if there is nothing to do. That comes before all else, if
// the Machine is gone as well: the claim passes the mark on to its host before it gives that back. The provider keeps
// the proxy until its state says that the host is clean.
func passMark(o Observation) *change {
	if o.Claim == nil || o.Proxy == nil {
		return nil
	}
	same := func(ref metav1.OwnerReference) bool { return isOwner(ref.UID, o.Claim) }
	if len(o.Proxy.OwnerReferences) > 0 && !slices.ContainsFunc(o.Proxy.OwnerReferences, same) {
		return nil // It stands for the host of another claim.
	}
	after := o.Claim.DeepCopy()
	if !hostclaim.PassMark(o.Proxy, "BareMetalHost", after) {
		return nil
	}
	return &change{o.Claim, after}
}

// owned returns what is wrong if claim or proxy are of another Machine of this name, which is gone: Kubernetes deletes
// them. The provider takes its Machine off the proxy before the Machine goes.
func owned(o Observation) string {
	if o.Claim != nil && !isOwner(o.Machine.UID, o.Claim) {
		return "Waiting until the HostClaim of an earlier Metal3Machine of this name is deleted"
	}
	if o.Proxy != nil && len(machinesOf(o.Proxy)) > 0 && !isOwner(o.Machine.UID, o.Proxy) {
		return "Waiting until the BareMetalHost of an earlier Metal3Machine of this name is deleted"
	}
	return ""
}

// hadHost is said of a Machine to which the provider has given a host. Another one would run beside it, or after it.
const hadHost = "The Machine had a host, so it gets no HostClaim for another one. Delete the Machine"

// ownerless is said of a Machine whose claim was restored. Only the owner tells it from one that somebody else has
// created.
const ownerless = "The HostClaim of this name has no owner. After a restore, set its ownerReferences to this Metal3Machine. Otherwise delete it"

// begin asks for a host.
func begin(o Observation) Decision {
	m := o.Machine
	chosen, _ := o.choose()
	switch {
	case m.Kind == "" || m.DeletionTimestamp != nil:
		return Decision{}
	case m.Problem != "":
		return Decision{Problem: m.Problem}
	case m.Annotations[metal3v1.HostAnnotation] != "":
		return Decision{Problem: hadHost}
	case chosen != nil:
		return Decision{Actions: []Action{take{*chosen, m}}}
	default:
		return Decision{Actions: []Action{create{newClaim(m)}}}
	}
}

// wait is for a Machine whose claim has no host. The Machine gives the claim up for a pair that is kept: it has one
// claim.
func wait(o Observation) Decision {
	chosen, problem := o.choose()
	if chosen != nil {
		return Decision{Actions: []Action{remove{o.Claim}}}
	}
	d := inStep(o)
	d.Problem = problem
	return d
}

// replace is for a Machine whose name an earlier one has left to a pair.
func replace(o Observation) Decision {
	if chosen, _ := o.choose(); chosen != nil && chosen.Claim.Name == o.Machine.Name && o.Machine.Problem == "" {
		return Decision{Actions: []Action{take{*chosen, o.Machine}}}
	}
	return Decision{Problem: owned(o)}
}

// leave is for a pair without a Machine. It stays for the next one, or ends.
func leave(o Observation) Decision {
	if (Pair{o.Claim, o.Proxy}).keeps(o.Cluster) {
		return keep(o)
	}
	if o.Machine != nil && tagged(o.Proxy) != "" {
		if actions := handOver(o); len(actions) > 0 {
			return Decision{Actions: actions} // The provider had no reason to wait.
		}
	}
	return end(o)
}

// end deletes what there is. The claim gives its host back.
func end(o Observation) Decision {
	var d Decision
	if o.Claim != nil && o.Claim.DeletionTimestamp == nil {
		d.Actions = append(d.Actions, remove{o.Claim})
	}
	// One that has no owner, and a consumer, was restored before its Machine. So was one whose claim has no owner either.
	restored := o.Machine == nil && o.Proxy != nil && (o.Proxy.Spec.ConsumerRef != nil || o.Ownerless) && len(o.Proxy.OwnerReferences) == 0
	if o.Proxy != nil && o.Proxy.DeletionTimestamp == nil && !restored {
		d.Actions = append(d.Actions, remove{o.Proxy})
	}
	return d
}

// inStep keeps claim and proxy in step.
func inStep(o Observation) Decision {
	d := Decision{Actions: handOver(o)}
	if len(d.Actions) > 0 {
		return d
	}
	if o.Claim != nil && o.Claim.DeletionTimestamp == nil {
		after := o.Claim.DeepCopy()
		after.Spec = wanted(o)
		after.Annotations = reboots(after.Annotations, o.Proxy)
		if o.Proxy != nil {
			// The claim asks for an image only after this, because the provider writes the image to the proxy.
			after.Annotations = hostclaim.Set(after.Annotations, metal3v1.StandInAnnotation, string(o.Proxy.UID))
		}
		if !equality.Semantic.DeepEqual(after, o.Claim) {
			// Its status says nothing about that yet.
			return Decision{Actions: []Action{change{o.Claim, after}}}
		}
	}
	if o.Proxy == nil {
		if o.Machine.DeletionTimestamp == nil && hasHost(o.Claim) {
			d.Actions = append(d.Actions, create{newProxy(o.Machine, o.Claim)})
		}
		return d
	}
	after := o.Proxy.DeepCopy()
	after.Status = statusOf(o)
	if !equality.Semantic.DeepEqual(after.Status, o.Proxy.Status) {
		d.Actions = append(d.Actions, tell{o.Proxy, after})
	}
	return d
}

// hasHost reports whether a claim has a host, and tells enough of it for the provider to write its data: a host that is
// known is reported whole.
func hasHost(claim *metal3v1.HostClaim) bool {
	return claim != nil && claim.DeletionTimestamp == nil && isTrue(claim, metal3v1.AssociatedCondition)
}

func isTrue(claim *metal3v1.HostClaim, condition string) bool {
	return hostclaim.ConditionOf(claim, condition).Status == "True"
}

// disputed reports whether an administrator has to say whether a claim gets the host of an earlier one of its name.
func disputed(claim *metal3v1.HostClaim) bool {
	return claim != nil && hostclaim.ConditionOf(claim, metal3v1.AssociatedCondition).Reason == metal3v1.AdoptionRequiredReason
}

// asks reports whether the provider wants something on its host.
func asks(proxy *bmov1.BareMetalHost) bool {
	return proxy.Spec.Image != nil || proxy.Spec.CustomDeploy != nil
}

// stateOf returns the state that the provider goes by. It waits with the deletion of a Machine until its host is
// available, or nothing.
func stateOf(o Observation) bmov1.ProvisioningState {
	claim := o.Claim
	switch {
	case o.Machine.DeletionTimestamp == nil && disputed(claim):
		return o.Proxy.Status.Provisioning.State // Its host is as it was.
	case claim == nil:
		return bmov1.StateNone
	case !isTrue(claim, metal3v1.AssociatedCondition) && mayRun(claim):
		return bmov1.StateProvisioning // The next host may run what the claim asks for before this is seen.
	case !isTrue(claim, metal3v1.AssociatedCondition):
		return bmov1.StateNone
	case claim.DeletionTimestamp != nil:
		return bmov1.StateDeprovisioning
	case claim.Status.ObservedGeneration != claim.Generation:
		return o.Proxy.Status.Provisioning.State // What it says is about another spec.
	case asks(o.Proxy) && isTrue(claim, metal3v1.ProvisionedCondition):
		return bmov1.StateProvisioned
	case asks(o.Proxy):
		return bmov1.StateProvisioning
	case hostclaim.ConditionOf(claim, metal3v1.ProvisionedCondition).Reason == metal3v1.ProvisioningReason:
		return bmov1.StateDeprovisioning
	default:
		return bmov1.StateAvailable
	}
}

// mayRun reports whether a claim without a host may get one that runs what the claim asks for. The provider takes that
// off the proxy, and so off the claim, before it waits for its host to be empty.
func mayRun(claim *metal3v1.HostClaim) bool {
	waits := claim.DeletionTimestamp == nil && !hostclaim.LostForGood(claim)
	return waits && (asksFor(claim) || claim.Status.ObservedGeneration != claim.Generation)
}

// asksFor reports whether a claim asks for something on its host.
func asksFor(claim *metal3v1.HostClaim) bool {
	return claim != nil && (claim.Spec.Image != nil || claim.Spec.CustomDeploy != nil)
}

// isOwner reports whether something belongs to a Machine.
func isOwner(machine types.UID, object client.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == machine })
}
