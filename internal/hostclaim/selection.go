package hostclaim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// selectorProblem says why the selector of a claim cannot be read, nil if it can. It is looked at once for each
// generation: many claims may wait, and are woken by each host that becomes free.
func selectorProblem(claim *metal3v1.HostClaim) error {
	said := ConditionOf(claim, metal3v1.AssociatedCondition)
	switch {
	case said.ObservedGeneration != claim.Generation:
	case said.Reason == metal3v1.NoBareMetalHostReason, said.Reason == metal3v1.NotCleanedReason:
		return nil // Hosts were looked for by it. Should somebody have forged that, Wants knows what it means all the same.
	}
	s := claim.Spec.HostSelector
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if _, err := labels.NewRequirement(key, selection.Equals, []string{s.MatchLabels[key]}); err != nil {
			return fmt.Errorf("spec.hostSelector.matchLabels: %w", err)
		}
	}
	for _, each := range s.MatchExpressions {
		operator, ok := operatorOf(each)
		if !ok {
			return fmt.Errorf(
				"spec.hostSelector.matchExpressions: %q is not an operator. Use In, NotIn, Exists or DoesNotExist", each.Operator,
			)
		}
		if _, err := labels.NewRequirement(each.Key, operator, each.Values); err != nil {
			return fmt.Errorf("spec.hostSelector.matchExpressions: %w", err)
		}
	}
	return nil
}

// Wants reports whether a host is in the namespace and has the labels that a claim asks for. It is called for all
// claims that wait, at one event of a host, so it compiles nothing: Select reports a selector that cannot be read.
func Wants(s metal3v1.HostSelector, host *bmov1.BareMetalHost) bool {
	if s.InNamespace != "" && s.InNamespace != host.Namespace {
		return false
	}
	for key, value := range s.MatchLabels {
		if is, ok := host.Labels[key]; !ok || is != value {
			return false
		}
	}
	return !slices.ContainsFunc(s.MatchExpressions, func(each metal3v1.HostSelectorRequirement) bool {
		return !holds(each, host.Labels)
	})
}

// holds reports whether a requirement holds for labels.
func holds(each metal3v1.HostSelectorRequirement, of map[string]string) bool {
	value, has := of[each.Key]
	switch operator, _ := operatorOf(each); operator {
	case selection.In, selection.Equals, selection.DoubleEquals:
		return has && slices.Contains(each.Values, value)
	case selection.NotIn, selection.NotEquals:
		return !has || !slices.Contains(each.Values, value)
	case selection.Exists:
		return has
	case selection.DoesNotExist:
		return !has
	default:
		return false
	}
}

// operatorOf returns the operator of a requirement, in whatever case it is written. Metal3's released type has the
// operators of Go's label selectors, so it has signs, too: "!" is its only name of DoesNotExist.
func operatorOf(each metal3v1.HostSelectorRequirement) (selection.Operator, bool) {
	switch sign := selection.Operator(each.Operator); sign {
	case selection.DoesNotExist, selection.Equals, selection.DoubleEquals, selection.NotEquals:
		return sign, true
	}
	switch {
	case strings.EqualFold(each.Operator, "In"):
		return selection.In, true
	case strings.EqualFold(each.Operator, "NotIn"):
		return selection.NotIn, true
	case strings.EqualFold(each.Operator, "Exists"):
		return selection.Exists, true
	case strings.EqualFold(each.Operator, "DoesNotExist"):
		return selection.DoesNotExist, true
	default:
		return "", false
	}
}

// all is the pool of all free hosts.
const all = ""

func pool(key, value string) string { return key + "=" + value }

// Pools returns the pools that a host is in: one for each of its labels, and one of all hosts. A host that is not free
// is in none. It is an index of hosts.
func Pools(host *bmov1.BareMetalHost) []string {
	if !Free(host) {
		return nil
	}
	pools := []string{all}
	for key, value := range host.Labels {
		pools = append(pools, pool(key, value))
	}
	return pools
}

// PoolOf returns a pool that has all the hosts which fit a selector.
func PoolOf(s metal3v1.HostSelector) string {
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		return pool(key, s.MatchLabels[key])
	}
	return all
}

// Free reports whether a host can be given to somebody.
func Free(host *bmov1.BareMetalHost) bool {
	has := func(key string) bool { _, ok := host.Annotations[key]; return ok }
	state := host.Status.Provisioning.State
	_, reserved := host.Labels[metal3v1.NodeReuseLabel]
	return host.Spec.ConsumerRef == nil && host.DeletionTimestamp == nil && !reserved &&
		(state == bmov1.StateAvailable || state == bmov1.StateReady) &&
		host.Status.ErrorMessage == "" && host.Status.OperationalStatus != bmov1.OperationalStatusDetached &&
		!host.Spec.ExternallyProvisioned && host.Spec.Image == nil && host.Spec.CustomDeploy == nil &&
		!has(bmov1.PausedAnnotation) && !has(bmov1.DetachedAnnotation) && !Unhealthy(host)
}

// SameOffer reports whether two versions of a host are the same to claims that wait for one. The status of a host that
// is free may change every second, and that is no news to them.
func SameOffer(was, is *bmov1.BareMetalHost) bool {
	if !Free(was) || !Free(is) {
		return Free(was) == Free(is)
	}
	return was.UID == is.UID && maps.Equal(was.Labels, is.Labels) && maps.Equal(was.Annotations, is.Annotations) &&
		NotCleaned(was) == NotCleaned(is) && lastProvisioned(was) == lastProvisioned(is)
}

// Question is which host a claim is to get.
type Question struct {
	Claim     *metal3v1.HostClaim
	Requester Requester
	// Hosts are of the pool of the claim. They are only read.
	Hosts []*bmov1.BareMetalHost
	// Policies are those of the namespaces of the hosts.
	Policies Policies
	// Reserved are hosts that other claims are about to take.
	Reserved map[types.NamespacedName]bool
}

// Answer is the host, or why there is none.
type Answer struct {
	Host *bmov1.BareMetalHost
	// Reason and Message are for the condition, and stay the same as long as nobody can do anything else about it. They
	// say nothing of hosts that are not open to the namespace of the claim, or a tenant would learn their labels by
	// asking for them.
	Reason, Message string
	// Refusals are for those who administer hosts that fit and are free.
	Refusals []Refusal
}

// Refusal is why a claim does not get the hosts of a namespace that fit and are free.
type Refusal struct {
	// Host is one of them, and Claim does not get it.
	Host  *bmov1.BareMetalHost
	Claim *metal3v1.HostClaim
	// Requester is the namespace of the claim, and By what refuses it.
	Requester, By string
	// Note says it to those who administer the host.
	Note string
}

// Select chooses a host. Different claims choose different hosts where they can, and one claim always the same.
func Select(q Question) Answer {
	if err := selectorProblem(q.Claim); err != nil {
		return Answer{Reason: metal3v1.SelectorInvalidReason, Message: err.Error()}
	}
	var fit []*bmov1.BareMetalHost
	refused := map[refusedBy]map[string]*bmov1.BareMetalHost{}
	said := map[string]policiesSay{}
	for _, host := range q.Hosts {
		reserved := q.Reserved[types.NamespacedName{Namespace: host.Namespace, Name: host.Name}]
		if reserved || !fits(host, q.Claim.Spec.HostSelector) {
			continue
		}
		if _, ok := said[host.Namespace]; !ok {
			said[host.Namespace] = q.Policies.ask(host.Namespace, q.Requester)
		}
		by := authorize(host, said[host.Namespace], q.Requester)
		if by == refusedByNobody {
			fit = append(fit, host)
			continue
		}
		if refused[by] == nil {
			refused[by] = map[string]*bmov1.BareMetalHost{}
		}
		if first := refused[by][host.Namespace]; first == nil || host.Name < first.Name {
			refused[by][host.Namespace] = host
		}
	}
	switch {
	case len(fit) > 0:
		return choose(q.Claim, fit)
	case refused[refusedByCleaning] != nil:
		return Answer{
			Reason: metal3v1.NotCleanedReason, Refusals: refusals(q, refused),
			Message: "Hosts that match spec.hostSelector are free, but their disks may have data of another namespace. Ask your administrator",
		}
	default:
		return Answer{
			Reason: metal3v1.NoBareMetalHostReason, Refusals: refusals(q, refused),
			Message: "No host that matches spec.hostSelector is free and allows this namespace. Change spec.hostSelector, or ask your administrator",
		}
	}
}

// Check says why a claim must not have a host; nothing if it may.
func Check(q Question, host *bmov1.BareMetalHost) string {
	problem := selectorProblem(q.Claim)
	switch {
	case problem != nil:
		return problem.Error()
	case !fits(host, q.Claim.Spec.HostSelector):
		return "it is not free, or no longer matches spec.hostSelector"
	case !open(host, q.Policies, q.Requester):
		return "it no longer allows this namespace"
	default:
		return ""
	}
}

// MayHave reports whether claims of a namespace with a selector that can be read may have a host. It compiles nothing.
func MayHave(host *bmov1.BareMetalHost, s metal3v1.HostSelector, policies Policies, r Requester) bool {
	return fits(host, s) && open(host, policies, r)
}

func open(host *bmov1.BareMetalHost, policies Policies, r Requester) bool {
	return authorize(host, policies.ask(host.Namespace, r), r) == refusedByNobody
}

func fits(host *bmov1.BareMetalHost, s metal3v1.HostSelector) bool {
	return Free(host) && Wants(s, host)
}

// choose prefers hosts of the failure domain.
func choose(claim *metal3v1.HostClaim, hosts []*bmov1.BareMetalHost) Answer {
	domain, message := claim.Spec.FailureDomain, ""
	if domain != "" {
		near := slices.DeleteFunc(slices.Clone(hosts), func(host *bmov1.BareMetalHost) bool {
			return host.Labels[metal3v1.FailureDomainLabel] != domain
		})
		if len(near) > 0 {
			hosts = near
		} else {
			message = fmt.Sprintf("No host of failure domain %s is free, so this host is of another one", domain)
		}
	}
	rank := func(host *bmov1.BareMetalHost) uint64 {
		return xxhash.Sum64String(string(claim.UID) + "/" + string(host.UID))
	}
	return Answer{
		Message: message,
		Host: slices.MaxFunc(hosts, func(a, b *bmov1.BareMetalHost) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
		}),
	}
}

// refusals says who refuses which hosts.
func refusals(q Question, refused map[refusedBy]map[string]*bmov1.BareMetalHost) []Refusal {
	var all []Refusal
	for _, by := range slices.Sorted(maps.Keys(refused)) {
		for _, namespace := range slices.Sorted(maps.Keys(refused[by])) {
			all = append(all, Refusal{
				Host: refused[by][namespace], Claim: q.Claim, Requester: q.Requester.Name, By: string(by),
				Note: fmt.Sprintf("HostClaim %s/%s matches this free host and does not get it: %s",
					q.Claim.Namespace, q.Claim.Name, by.note(q.Requester.Name)),
			})
		}
	}
	return all
}
