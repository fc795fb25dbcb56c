package identity

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Version is one state of one Secret; the zero value is that there is none.
type Version struct {
	uid             types.UID
	resourceVersion string
}

// VersionOf returns the state that a Secret, or its metadata, is in.
func VersionOf(of metav1.Object) Version {
	return Version{uid: of.GetUID(), resourceVersion: of.GetResourceVersion()}
}

// SecretMetadata returns an object for the metadata of a Secret.
func SecretMetadata() *metav1.PartialObjectMetadata { return metadataOf("Secret") }

// Merge puts conditions in the place of those of the same types, and leaves others alone.
func Merge(before []identityv1.Condition, ours ...identityv1.Condition) []identityv1.Condition {
	merged := slices.Clone(before)
	for _, condition := range ours {
		at := slices.IndexFunc(merged, func(c identityv1.Condition) bool { return c.Type == condition.Type })
		if at < 0 {
			merged = append(merged, condition)
			continue
		}
		merged[at] = condition
	}
	return merged
}

// Stamp gives a condition the time of its last transition.
func Stamp(after, before *identityv1.Condition, now time.Time) {
	after.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	if before != nil && before.Status == after.Status && !before.LastTransitionTime.IsZero() {
		after.LastTransitionTime = before.LastTransitionTime
	}
}
