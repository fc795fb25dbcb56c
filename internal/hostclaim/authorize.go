package hostclaim

import (
	"fmt"
	"slices"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// Requester is the namespace that a claim is in.
type Requester struct {
	// Name is that of the namespace.
	Name string
	// Labels are those of the Namespace; none if it is not known.
	Labels map[string]string
}

// Policies are those of some namespaces, by namespace.
type Policies map[string][]metal3v1.HostDeployPolicy

// refusedBy is why a host must not be had.
type refusedBy string

const (
	refusedByNobody   refusedBy = ""
	refusedByOptIn    refusedBy = "optIn"
	refusedByPolicies refusedBy = "policies"
	refusedByCleaning refusedBy = "cleaning"
	refusedByDefault  refusedBy = "default"
)

// note says it to those who administer the host.
func (by refusedBy) note(requester string) string {
	switch by {
	case refusedByOptIn:
		return fmt.Sprintf("its label or annotation %s does not name namespace %s. Add it to allow the namespace", metal3v1.NamespacesKey, requester)
	case refusedByPolicies:
		return fmt.Sprintf("no HostDeployPolicy of this namespace allows namespace %s. Add it to one to allow the namespace", requester)
	case refusedByCleaning:
		return "its automatedCleaningMode is disabled, so its disks may have data of another namespace, and no HostDeployPolicy " +
			"that allows namespace " + requester + " sets allowUncleanedHosts"
	default:
		return fmt.Sprintf("it has no label or annotation %s, and its namespace has no HostDeployPolicy. Create one to allow namespaces", metal3v1.NamespacesKey)
	}
}

// authorize says whether claims of a namespace may have a host. The host can say so itself, and the policies in its
// namespace can: each of the two that is there has to. Where there is neither, nobody may have the host. What is on the
// disks of a host is for another namespace only if a policy says so.
func authorize(host *bmov1.BareMetalHost, policies policiesSay, r Requester) refusedBy {
	by := permit(host, policies, r)
	if by == refusedByNobody && policies != yesUncleaned && mayHoldOthersData(host, r.Name) {
		return refusedByCleaning
	}
	return by
}

// permit is authorize without a look at what is on the disks.
func permit(host *bmov1.BareMetalHost, policies policiesSay, r Requester) refusedBy {
	present, allowed := optIn(host, r.Name)
	switch {
	case present && !allowed:
		return refusedByOptIn
	case policies == nothing && !present:
		return refusedByDefault
	case policies == no:
		return refusedByPolicies
	default:
		return refusedByNobody
	}
}

// Withdrawn says why a namespace may not have a host any more that one of its claims has, empty if it may. What is on
// the disks is that claim's own. The text is for the tenant of the claim.
func Withdrawn(host *bmov1.BareMetalHost, policies Policies, r Requester) string {
	switch permit(host, policies.ask(host.Namespace, r), r) {
	case refusedByNobody:
		return ""
	case refusedByOptIn:
		return "its label or annotation " + metal3v1.NamespacesKey + " does not name it"
	case refusedByPolicies:
		return "no HostDeployPolicy of namespace " + host.Namespace + " allows it"
	default:
		return "it has no label or annotation " + metal3v1.NamespacesKey + ", and its namespace has no HostDeployPolicy"
	}
}

// policiesSay is what the policies of one namespace say to claims of another one.
type policiesSay int

const (
	nothing policiesSay = iota
	no
	yes
	// yesUncleaned is yes also for hosts that were not cleaned.
	yesUncleaned
)

// ask asks the policies of a namespace. One that cannot be read allows nobody.
func (p Policies) ask(namespace string, r Requester) policiesSay {
	say := nothing
	for i := range p[namespace] {
		one := &p[namespace][i]
		switch {
		case !allows(one, r):
			say = max(say, no)
		case one.Spec.AllowUncleanedHosts:
			say = yesUncleaned
		default:
			say = max(say, yes)
		}
	}
	return say
}

// MayKeepDisks reports whether claims of a namespace may keep what is on the disks of hosts in another one while they
// have these hosts.
func MayKeepDisks(policies Policies, hosts string, r Requester) bool {
	return slices.ContainsFunc(policies[hosts], func(one metal3v1.HostDeployPolicy) bool {
		return one.Spec.AllowKeptDisks && allows(&one, r)
	})
}

// optIn says whether a host names namespaces, and whether it names this one. Where it has both the label and the
// annotation, both have to.
func optIn(host metav1.Object, namespace string) (present, allowed bool) {
	allowed = true
	if value, ok := host.GetLabels()[metal3v1.NamespacesKey]; ok {
		// An API server does not store a label with a star or a comma.
		everybody := value == "ALL" || value == "*"
		present, allowed = true, everybody || names(value, "_.,", namespace)
	}
	if value, ok := host.GetAnnotations()[metal3v1.NamespacesKey]; ok {
		present, allowed = true, allowed && (strings.TrimSpace(value) == "*" || names(value, ",", namespace))
	}
	return present, present && allowed
}

// names reports whether a list has a name, as it is and not a part of it.
func names(list, separators, name string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(list, func(r rune) bool {
		return strings.ContainsRune(separators, r)
	}), func(one string) bool { return strings.TrimSpace(one) == name })
}

// PolicyProblem says why a policy allows nobody although it seems to allow somebody: it cannot be read, or it sets
// nothing. The API server stores "names: null" as nothing, which is what is left of a list whose last name was
// commented out.
func PolicyProblem(policy *metal3v1.HostDeployPolicy) string {
	if from := policy.Spec.HostClaimNamespaces; from != nil {
		if setsNothing(from) {
			return "spec.hostClaimNamespaces is empty. List namespaces, or allow all of them by nameMatches: .*"
		}
		if _, err := anchored(from.NameMatches); err != nil {
			return fmt.Sprintf("spec.hostClaimNamespaces.nameMatches cannot be read: %v", err)
		}
	}
	return ""
}

// CopyProblem says why a policy does not copy all that its metadataCopy is meant for.
func CopyProblem(policy *metal3v1.HostDeployPolicy) string {
	copied := policy.Spec.MetadataCopy
	switch {
	case copied == nil:
		return ""
	case *copied == (metal3v1.MetadataCopy{}):
		return "spec.metadataCopy is empty. Set labelsMatch or annotationsMatch"
	}
	for _, field := range []struct{ name, expression string }{
		{"labelsMatch", copied.LabelsMatch}, {"annotationsMatch", copied.AnnotationsMatch},
	} {
		if _, err := anchored(field.expression); err != nil {
			return fmt.Sprintf("spec.metadataCopy.%s cannot be read: %v", field.name, err)
		}
	}
	return ""
}

// setsNothing reports whether no field selects namespaces.
func setsNothing(from *metal3v1.HostClaimNamespaces) bool {
	return from.Names == nil && from.NameMatches == "" && len(from.HasLabels) == 0
}

// allows reports whether a policy lets claims of a namespace have the hosts in its own.
func allows(policy *metal3v1.HostDeployPolicy, r Requester) bool {
	from := policy.Spec.HostClaimNamespaces
	if from == nil || setsNothing(from) {
		return false
	}
	if from.Names != nil && !slices.Contains(from.Names, r.Name) {
		return false
	}
	if from.NameMatches != "" {
		if whole, err := anchored(from.NameMatches); err != nil || !whole.MatchString(r.Name) {
			return false
		}
	}
	return !slices.ContainsFunc(from.HasLabels, func(want metal3v1.NameValuePair) bool {
		value, ok := r.Labels[want.Name]
		return !ok || want.Value != "" && value != want.Value
	})
}
