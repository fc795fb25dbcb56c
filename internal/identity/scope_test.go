package identity

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	"github.com/archelon-io/archelon/internal/shard"
)

func scopeOf(t *testing.T, included, excluded []string) shard.Scope {
	t.Helper()
	scope, err := shard.New(included, excluded)
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

func TestSharedCache(t *testing.T) {
	for name, tc := range map[string]struct {
		reason             string
		included, excluded []string
		want               []string
		reads, readsNot    []string
	}{
		"All": {"nothing is left out", nil, nil, nil, []string{"a", "infra"}, nil},
		"Included": {
			"trusted namespaces are read besides", []string{"a"}, nil, []string{"a", "infra"}, []string{"a", "infra"},
			[]string{"b"},
		},
		"Excluded": {
			"trusted namespaces are not excluded", nil, []string{"b", "infra"}, []string{cache.AllNamespaces, "infra"},
			[]string{"a", "infra"}, []string{"b"},
		},
	} {
		scope := Scope{
			Shard: scopeOf(t, tc.included, tc.excluded), Policy: Policy{TrustedNamespaces: []string{"infra"}},
		}
		for object, limits := range scope.SharedCache() {
			if _, ok := object.(*infrav1.OCIClusterIdentity); !ok {
				t.Errorf("%s: it limits %T", name, object)
			}
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(limits.Namespaces))); diff != "" {
				t.Errorf("%s: %s: (-want +got)\n%s", name, tc.reason, diff)
			}
		}
		for _, namespace := range tc.reads {
			if !scope.readable(namespace) {
				t.Errorf("%s: %s cannot be read", name, namespace)
			}
		}
		for _, namespace := range tc.readsNot {
			if scope.readable(namespace) {
				t.Errorf("%s: %s can be read", name, namespace)
			}
		}
	}
}

// A cache without namespaces is one of all namespaces. That must never happen to Secrets.
func TestOwnCacheNeverHoldsSecretsOfAllNamespaces(t *testing.T) {
	for name, namespaces := range map[string][]string{"None": nil, "Some": {"vault", "infra"}} {
		seen := false
		for object, limits := range (Scope{Policy: Policy{SecretNamespaces: namespaces}}).OwnCache().ByObject {
			if _, ok := object.(*corev1.Secret); !ok {
				continue
			}
			seen = true
			if limits.Field == nil && len(limits.Namespaces) == 0 {
				t.Errorf("%s: the cache holds all Secrets", name)
			}
			if len(limits.Namespaces) != len(namespaces) {
				t.Errorf("%s: got %v", name, limits.Namespaces)
			}
		}
		if !seen {
			t.Errorf("%s: nothing limits Secrets", name)
		}
	}
}

func TestTransformsDropWhatCanHoldKeys(t *testing.T) {
	full := func() *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "key", UID: "u", ResourceVersion: "1", Labels: map[string]string{"team": "x"},
			Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "the key itself"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		}}
	}
	secret := metav1.ObjectMeta{Namespace: "a", Name: "key", UID: "u", ResourceVersion: "1"}
	namespace := *secret.DeepCopy()
	namespace.Labels = map[string]string{"team": "x"}
	for name, tc := range map[string]struct {
		transform func(any) (any, error)
		want      metav1.ObjectMeta
	}{"Secret": {keepIdentity, secret}, "Namespace": {keepLabels, namespace}} {
		got, err := tc.transform(full())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&metav1.PartialObjectMetadata{ObjectMeta: tc.want}, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}
