package baremetal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// A stray is a host that this controller has taken for a claim that is gone. The finalizer of a claim has its host
// cleaned first, and that is written on the host. Where it is not, the claim was not deleted in that way: it may have
// been restored with another UID, or is about to be. So such a host is left as it is until an administrator decides.

// strangers reports whether a host names a claim of this name that is not the one in the cache.
func strangers(o Observation) bool {
	return slices.ContainsFunc(o.Consumed, func(host *bmov1.BareMetalHost) bool {
		_, uid, _ := consumerOf(host)
		return uid != "" && (o.Claim == nil || uid != o.Claim.UID)
	})
}

// strays returns those of claims of this name.
func (o Observation) strays() []*bmov1.BareMetalHost {
	return slices.DeleteFunc(slices.Clone(o.Consumed), func(host *bmov1.BareMetalHost) bool { return !o.stray(host) })
}

func (o Observation) stray(host *bmov1.BareMetalHost) bool {
	_, uid, _ := consumerOf(host)
	_, saved := host.Annotations[metal3v1.SavedAnnotation]
	return saved && uid != "" && (o.Claim == nil || uid != o.Claim.UID) && uid != o.UID
}

// inherited returns a stray that is not about to be released, nil if there is none. The claim may be meant to have it,
// and so it gets no other host.
func (o Observation) inherited() *bmov1.BareMetalHost {
	hosts := o.strays()
	if o.Named != nil && !slices.ContainsFunc(o.Consumed, func(host *bmov1.BareMetalHost) bool { return keyOf(host) == keyOf(o.Named) }) {
		// The cache does not have it yet.
		key, _, _ := consumerOf(o.Named)
		if key == (types.NamespacedName{Namespace: o.Claim.Namespace, Name: o.Claim.Name}) && o.stray(o.Named) {
			hosts = append(hosts, o.Named)
		}
	}
	if hosts = slices.DeleteFunc(hosts, givenUp); len(hosts) == 0 {
		return nil
	}
	return hosts[0]
}

// givenUp reports whether a stray is to be released: the deletion of its claim had begun, an administrator says so, or
// nothing was done with it since it was taken. That is one whose claim went at that very moment.
func givenUp(host *bmov1.BareMetalHost) bool {
	_, uid, _ := consumerOf(host)
	return said(host, metal3v1.ReleaseAnnotation, uid) || untouched(host)
}

func said(host *bmov1.BareMetalHost, key string, uid types.UID) bool {
	return host.Annotations[key] == string(uid)
}

func untouched(host *bmov1.BareMetalHost) bool {
	was, known := savedOf(host)
	state := host.Status.Provisioning.State
	return known && host.UID != "" &&
		equality.Semantic.DeepEqual(was, asIs(host)) && host.Spec.Image == nil && host.Spec.CustomDeploy == nil &&
		(state == bmov1.StateAvailable || state == bmov1.StateReady)
}

// astray says what becomes of strays. A claim that has no host adopts one of them at most.
func astray(o Observation) []Action {
	var actions []Action
	free := o.Claim != nil && o.Claim.UID == o.UID && o.Claim.DeletionTimestamp == nil && held(o.Claim) && len(o.owned()) == 0
	for _, host := range o.strays() {
		_, uid, _ := consumerOf(host)
		_, stopped := host.Annotations[bmov1.PausedAnnotation]
		switch {
		case givenUp(host) && stopped:
		case givenUp(host):
			actions = append(actions, releases([]*bmov1.BareMetalHost{host}, o.Secrets)...)
		case free && said(host, metal3v1.AdoptAnnotation, uid):
			free = false
			actions = append(actions, changeHost{host, adopted(host, o.Claim), "give it to the claim that took its claim's place", nil})
		default:
			after := host.DeepCopy()
			setOn(after, metal3v1.ProblemAnnotation, plight(o, host))
			if after = changed(host, after); after != nil {
				actions = append(actions, changeHost{host, after, "say that its claim is gone", &hostclaim.Warning{
					Reason: metal3v1.AdoptionRequiredReason, Note: after.Annotations[metal3v1.ProblemAnnotation],
				}})
			}
		}
	}
	return actions
}

// plight says what is wrong with a stray, and what an administrator does about it.
func plight(o Observation, host *bmov1.BareMetalHost) string {
	key, uid, _ := consumerOf(host)
	notes := []string{fmt.Sprintf(
		"BareMetalHost %s belongs to an earlier HostClaim %s with UID %s, so it was not changed. To give "+
			"it to the present HostClaim of that name, set annotation %s=%s on the BareMetalHost. To clean and release it, set "+
			"annotation %s=%s", keyOf(host), key, uid, metal3v1.AdoptAnnotation, uid, metal3v1.ReleaseAnnotation, uid,
	)}
	for _, annotation := range []string{metal3v1.AdoptAnnotation, metal3v1.ReleaseAnnotation} {
		if value, ok := host.Annotations[annotation]; ok && !said(host, annotation, uid) {
			notes = append(notes, fmt.Sprintf("The value %.64q of annotation %s is not that UID", value, annotation))
		}
	}
	switch owned := o.owned(); {
	case !said(host, metal3v1.AdoptAnnotation, uid):
	case len(owned) > 0:
		notes = append(notes, fmt.Sprintf("The HostClaim cannot adopt it while it has BareMetalHost %s", keyOf(owned[0])))
	default:
		notes = append(notes, "Waiting for such a HostClaim, which then adopts it")
	}
	return hostclaim.Bounded(strings.Join(notes, ". "))
}

// disputed is for a claim without a host for which there are hosts of an earlier claim of its name.
func disputed(o Observation, now time.Time) Decision {
	note := plight(o, o.inherited())
	return Decision{Status: statusOf(o, nil, condition{reason: metal3v1.AdoptionRequiredReason, message: note}, nil, now)}
}

// adopted returns a host that belongs to the claim that took its claim's place.
func adopted(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim) *bmov1.BareMetalHost {
	after := host.DeepCopy()
	after.Spec.ConsumerRef.UID = claim.UID
	undisputed(after)
	// What was restored with the claim has other versions, although nothing has changed.
	setOn(after, metal3v1.ProvisionedWithAnnotation, "")
	return after
}

// undisputed removes what is said of a stray.
func undisputed(host *bmov1.BareMetalHost) {
	for _, key := range []string{metal3v1.AdoptAnnotation, metal3v1.ReleaseAnnotation, metal3v1.ProblemAnnotation} {
		delete(host.Annotations, key)
	}
}
