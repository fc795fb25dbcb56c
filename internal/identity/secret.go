package identity

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
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

// ReadSecret gets a Secret from the API server. Who calls it overwrites the data with Forget. Nothing else reads the
// data of Secrets.
func ReadSecret(ctx context.Context, live client.Reader, key types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := live.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return secret, nil
}

// Forget overwrites the data of a Secret that is not needed any more.
func Forget(data map[string][]byte) {
	for name := range data {
		clear(data[name])
	}
}

// SecretMetadata returns an object for the metadata of a Secret.
func SecretMetadata() *metav1.PartialObjectMetadata { return metadataOf("Secret") }

// Merge puts conditions in the place of those of the same types, and leaves others alone.
func Merge(before []infrav1.Condition, ours ...infrav1.Condition) []infrav1.Condition {
	merged := slices.Clone(before)
	for _, condition := range ours {
		at := slices.IndexFunc(merged, func(c infrav1.Condition) bool { return c.Type == condition.Type })
		if at < 0 {
			merged = append(merged, condition)
			continue
		}
		merged[at] = condition
	}
	return merged
}

// Stamp gives a condition the time of its last transition.
func Stamp(after, before *infrav1.Condition, now time.Time) {
	after.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	if before != nil && before.Status == after.Status && !before.LastTransitionTime.IsZero() {
		after.LastTransitionTime = before.LastTransitionTime
	}
}
