package instance

import (
	"maps"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/archelon-io/archelon/internal/shard"
)

func TestRead(t *testing.T) {
	tests := map[string]struct {
		reason      string
		annotations map[string]string
		name        string
		works       shard.Scope
		invalid     bool
	}{
		"WorksInPart": {
			reason:      "the instance works in a part of its scope",
			annotations: map[string]string{"archelon.io/scope": "*", "archelon.io/works-in": "+a"}, works: mustScope(t, "+a"),
		},
		"WorksInMissing": {
			reason:      "an administrator removed the annotation, and the instance may be working in its whole scope",
			annotations: map[string]string{"archelon.io/scope": "+a,b"}, works: mustScope(t, "+a,b"),
		},
		"WorksInInvalid": {
			reason:      "a scope that cannot be read is not taken for an empty one",
			annotations: map[string]string{"archelon.io/scope": "*", "archelon.io/works-in": "?"}, invalid: true,
		},
		"ScopeMissing": {reason: "no instance wrote this Lease", annotations: map[string]string{"archelon.io/works-in": "*"}, invalid: true},
		"SelectorInvalid": {
			reason:      "a selector that cannot be read is not taken for none",
			annotations: map[string]string{"archelon.io/scope": "*", "archelon.io/namespace-selector": "a in ("}, invalid: true,
		},
		"OtherName": {reason: "the name does not belong to the instance of the label", name: "other", annotations: map[string]string{"archelon.io/scope": "*"}, invalid: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Namespace: system, Name: "capi1" + leaseSuffix, Labels: map[string]string{"archelon.io/instance": "capi1"}, Annotations: maps.Clone(tc.annotations),
			}}
			if tc.name != "" {
				lease.Name = tc.name
			}
			got, err := Read(lease)
			if (err != nil) != tc.invalid {
				t.Fatalf("%s: got error %v", tc.reason, err)
			}
			if !tc.invalid && !got.Works.Equal(tc.works) {
				t.Errorf("%s: the instance works in %s, want %s", tc.reason, got.Works.Encode(), tc.works.Encode())
			}
		})
	}
}
