package hostclaim

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// ConditionOf returns a condition of a claim, an empty one if there is none.
func ConditionOf(claim *metal3v1.HostClaim, name string) metav1.Condition {
	if found := meta.FindStatusCondition(claim.Status.Conditions, name); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// LostForGood reports whether a claim has lost a host that was in use, and so gets no other one. The status alone does
// not say so: a status that was forged, or restored, would keep the claim from all hosts.
func LostForGood(claim *metal3v1.HostClaim) bool {
	lost := ConditionOf(claim, metal3v1.AssociatedCondition).Reason == metal3v1.HostLostReason
	return lost && claim.Annotations[metal3v1.LostHostAnnotation] != ""
}

// maxInfo is how many labels, and how many annotations, a claim gets from its host, maxInfoValue how long one may be.
const (
	maxInfo      = 32
	maxInfoValue = 1024
)

// Inform has a claim carry what the labels and annotations of its host tell its users, and nothing else under that
// prefix.
func Inform(claim *metal3v1.HostClaim, labels, annotations map[string]string) {
	claim.Labels = told(claim.Labels, labels, func(value string) bool { return len(validation.IsValidLabelValue(value)) == 0 })
	claim.Annotations = told(claim.Annotations, annotations, func(value string) bool { return len(value) <= maxInfoValue })
}

func told(claim, host map[string]string, fits func(string) bool) map[string]string {
	for key := range claim {
		if strings.HasPrefix(key, metal3v1.InfoPrefix) {
			delete(claim, key)
		}
	}
	count := 0
	for _, key := range slices.Sorted(maps.Keys(host)) {
		if !strings.HasPrefix(key, metal3v1.InfoPrefix) || !fits(host[key]) || count == maxInfo ||
			len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
			continue
		}
		count++
		if claim == nil {
			claim = map[string]string{}
		}
		claim[key] = host[key]
	}
	return claim
}

// Set sets a key, or removes it if its value is empty.
func Set(values map[string]string, key, value string) map[string]string {
	if value == "" {
		delete(values, key)
		return values
	}
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}

// maxMessage bounds the message of a condition.
const maxMessage = 1024

// Bounded cuts a text off that is too long for the message of a condition.
func Bounded(text string) string {
	if len(text) > maxMessage {
		return strings.ToValidUTF8(text[:maxMessage], "")
	}
	return text
}
