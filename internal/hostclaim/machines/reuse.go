package machines

import (
	"slices"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Node reuse: a claim and its proxy stay when their Machine is gone, for the next Machine of the same control plane or
// deployment. The provider says so by a label of the proxy. There is no reservation but the claim: it has the host, and
// it counts in the quota of its namespace. It ends with its Cluster, which owns both from the moment that the deletion
// of the Machine begins.

// Pair is a claim and the proxy of its name. One of the two can be missing.
type Pair struct {
	Claim *metal3v1.HostClaim
	Proxy *bmov1.BareMetalHost
}

// group is the control plane or the deployment of a Machine, as the provider writes it to the label of proxies. It is
// empty if the Machine has none.
func group(labels map[string]string) string {
	if name := labels[clusterv1.MachineControlPlaneNameLabel]; name != "" {
		return "cp-" + name
	}
	if name := labels[clusterv1.MachineDeploymentNameLabel]; name != "" {
		return "md-" + name
	}
	return ""
}

// done reports whether the provider has released a proxy. In CAPM3 1.14 the consumer of a host that is to be used again
// is the Cluster.
func done(proxy *bmov1.BareMetalHost) bool {
	ref := proxy.Spec.ConsumerRef
	return ref == nil || ref.Kind == clusterKind
}

// tagged returns for which group the provider has left a proxy, empty if it has not.
func tagged(proxy *bmov1.BareMetalHost) string {
	if proxy == nil || !done(proxy) {
		return ""
	}
	return proxy.Labels[metal3v1.NodeReuseLabel]
}

// keeps reports whether a pair without a Machine stays for the next one. One that is marked as unhealthy, or has lost
// its host, is of no use to any. A claim that has come from another cluster has no status yet.
func (p Pair) keeps(cluster *clusterv1.Cluster) bool {
	return tagged(p.Proxy) != "" && p.Proxy.DeletionTimestamp == nil && p.Claim != nil && p.Claim.DeletionTimestamp == nil &&
		cluster != nil && isOwner(cluster.UID, p.Claim) && !hostclaim.Unhealthy(p.Claim) && !hostclaim.Unhealthy(p.Proxy) &&
		!hostclaim.LostForGood(p.Claim) && hostclaim.ConditionOf(p.Claim, metal3v1.AssociatedCondition).Reason != metal3v1.NoBareMetalHostReason
}

// differs says in which fields a Machine asks for another host than the one that a claim has, empty if in none.
func differs(m *Machine, claim *metal3v1.HostClaim) string {
	want, is := wanted(Observation{Machine: m}), claim.Spec
	switch {
	case want.Kind != is.Kind:
		return "kind"
	case !equality.Semantic.DeepEqual(want.Args, is.Args):
		return "args"
	case want.Credentials != is.Credentials:
		return "credentials"
	case !equality.Semantic.DeepEqual(want.HostSelector, is.HostSelector):
		return "hostSelector"
	default:
		return ""
	}
}

// choose returns the kept pair that a Machine gets, one of its failure domain before others, nil if there is none. It
// also returns what is wrong with the others.
func (o Observation) choose() (chosen *Pair, problem string) {
	for i := range o.Kept {
		pair := &o.Kept[i]
		if !pair.keeps(o.Cluster) || pair.Claim.Labels[clusterv1.ClusterNameLabel] != o.Cluster.Name ||
			tagged(pair.Proxy) != group(o.Machine.Labels) {
			continue
		}
		if field := differs(o.Machine, pair.Claim); field != "" {
			problem = "HostClaim " + pair.Claim.Name + " keeps a host for the next Machine, but was created with another " + field +
				". Delete that HostClaim to give its host back"
			continue
		}
		if chosen == nil || chosen.Claim.Spec.FailureDomain != o.Machine.FailureDomain &&
			pair.Claim.Spec.FailureDomain == o.Machine.FailureDomain {
			chosen = pair
		}
	}
	return chosen, problem
}

// waits reports whether a claim has no host, and is about to take none.
func waits(claim *metal3v1.HostClaim) bool {
	return claim != nil && claim.DeletionTimestamp == nil && !isTrue(claim, metal3v1.AssociatedCondition) &&
		claim.Status.PendingHost == nil && claim.Status.BareMetalHost == nil && !disputed(claim) && !hostclaim.LostForGood(claim)
}

// handOver makes the Cluster an owner of a pair whose Machine is being deleted, so that Kubernetes does not delete the
// pair with the Machine. That comes before the provider learns that the host is empty.
func handOver(o Observation) []Action {
	if o.Machine.DeletionTimestamp == nil || o.Cluster == nil || o.Proxy == nil || o.Claim == nil || o.Claim.DeletionTimestamp != nil {
		return nil
	}
	var actions []Action
	for _, object := range (Pair{o.Claim, o.Proxy}).objects() {
		if !isOwner(o.Cluster.UID, object) {
			actions = append(actions, own{object, ownerCluster(o.Cluster)})
		}
	}
	return actions
}

// keep leaves a pair as it is. The provider can have removed the Cluster from the owners of the proxy: it replaces all
// owners by those that its cache has, without its Machine.
func keep(o Observation) Decision {
	if isOwner(o.Cluster.UID, o.Proxy) {
		return Decision{}
	}
	return Decision{Actions: []Action{own{o.Proxy, ownerCluster(o.Cluster)}}}
}

// adopts reports whether a Machine has a proxy that was kept, and does not have the claim yet.
func adopts(o Observation) bool {
	return o.Gone && o.Cluster != nil && o.Machine.DeletionTimestamp == nil && o.Claim != nil && o.Claim.DeletionTimestamp == nil &&
		o.Proxy != nil && consumes(o.Machine.Name, o.Proxy) && isOwner(o.Machine.UID, o.Proxy) &&
		!isOwner(o.Machine.UID, o.Claim) && isOwner(o.Cluster.UID, o.Claim) && differs(o.Machine, o.Claim) == ""
}

// objects returns what there is of a pair.
func (p Pair) objects() []client.Object {
	var objects []client.Object
	if p.Claim != nil {
		objects = append(objects, p.Claim)
	}
	if p.Proxy != nil {
		objects = append(objects, p.Proxy)
	}
	return objects
}

// consumes reports whether a Machine is the consumer of a proxy.
func consumes(machine string, proxy *bmov1.BareMetalHost) bool {
	return consumer(proxy) == machine
}

// consumer returns the name of the Machine that a proxy names as its consumer, empty if it names none.
func consumer(proxy *bmov1.BareMetalHost) string {
	ref := proxy.Spec.ConsumerRef
	if ref == nil || ref.Kind != machineKind().Kind || ref.Namespace != proxy.Namespace {
		return ""
	}
	return ref.Name
}

// clusterKind is the kind of CAPI Clusters.
const clusterKind = "Cluster"

func ownerCluster(cluster *clusterv1.Cluster) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: clusterKind, Name: cluster.Name, UID: cluster.UID,
	}
}

func ownerMachine(m *Machine) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: machineKind().GroupVersion().String(), Kind: machineKind().Kind, Name: m.Name, UID: m.UID,
	}
}

// owners returns the owners of a pair that gets another Machine: earlier ones are gone.
func owners(object client.Object, m *Machine) []metav1.OwnerReference {
	kept := slices.DeleteFunc(slices.Clone(object.GetOwnerReferences()), func(ref metav1.OwnerReference) bool {
		return ref.Kind == machineKind().Kind
	})
	return append(kept, ownerMachine(m))
}

// machinesOf returns the names of the Machines that own an object, with their UIDs.
func machinesOf(object client.Object) map[string]types.UID {
	names := map[string]types.UID{}
	for _, ref := range object.GetOwnerReferences() {
		if ref.Kind == machineKind().Kind && ref.Name != "" {
			names[ref.Name] = ref.UID
		}
	}
	return names
}
