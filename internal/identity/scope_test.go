package identity

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/controller"
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

func watchesOn[T client.Object](t *testing.T, scope Scope) []controller.Watch {
	t.Helper()
	var found []controller.Watch
	for _, watch := range scope.Watches() {
		if _, ok := watch.Object.(T); ok {
			found = append(found, watch)
		}
	}
	return found
}

func TestWatchedIdentities(t *testing.T) {
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
		"Trusted": {
			"where the instance works anyway, there is nothing to add", []string{"infra"}, nil, nil, []string{"infra"},
			[]string{"a"},
		},
		"Excluded": {
			"trusted namespaces are not excluded", nil, []string{"b", "infra"}, []string{cache.AllNamespaces, "infra"},
			[]string{"a", "infra"}, []string{"b"},
		},
	} {
		scope := Scope{
			Shard: scopeOf(t, tc.included, tc.excluded), Policy: oci.Policy{TrustedNamespaces: []string{"infra"}},
		}
		for _, watch := range watchesOn[*identityv1.OCIClusterIdentity](t, scope) {
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(watch.By.Namespaces))); diff != "" || watch.Own {
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
func TestSecretsOfAllNamespacesAreNeverWatched(t *testing.T) {
	for name, namespaces := range map[string][]string{"None": nil, "Some": {"vault", "infra"}} {
		var watched []string
		for _, watch := range watchesOn[*metav1.PartialObjectMetadata](
			t, Scope{Policy: oci.Policy{SecretNamespaces: namespaces, TrustedNamespaces: []string{"infra"}}},
		) {
			if watch.Object.GetObjectKind().GroupVersionKind().Kind != "Secret" {
				continue
			}
			if !watch.Own || len(watch.By.Namespaces) == 0 {
				t.Errorf("%s: it receives all Secrets, or those of the shared cache", name)
			}
			watched = slices.Sorted(maps.Keys(watch.By.Namespaces))
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(namespaces)), watched); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
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
	}{"Secret": {controller.KeepIdentity, secret}, "Namespace": {controller.KeepAllLabels, namespace}} {
		got, err := tc.transform(full())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&metav1.PartialObjectMetadata{ObjectMeta: tc.want}, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}
