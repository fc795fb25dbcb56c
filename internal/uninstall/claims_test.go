package uninstall

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/scheme"
)

// claimsWorld has claims of both kinds in two namespaces, one of which another instance works in.
func claimsWorld(t *testing.T) client.WithWatch {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	named := func(namespace, name string, finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}
	}
	var objects []client.Object
	for _, namespace := range []string{"tenant", "theirs"} {
		leaving := &metal3v1.HostClaim{ObjectMeta: named(namespace, "leaving", "hostclaims.metal3.io/baremetal")}
		leaving.DeletionTimestamp, leaving.Labels = &now, map[string]string{"hostclaims.metal3.io/host": "infra.h1"}
		gone := &metal3v1.HostClaim{ObjectMeta: named(namespace, "far-leaving", "hostclaims.metal3.io/remote")}
		gone.DeletionTimestamp = &now
		objects = append(objects, leaving, gone,
			&metal3v1.HostClaim{ObjectMeta: named(namespace, "bound", "hostclaims.metal3.io/baremetal", "somebody.else/s")},
			&metal3v1.HostClaim{ObjectMeta: named(namespace, "far", "hostclaims.metal3.io/remote")},
			&corev1.Secret{ObjectMeta: named(namespace, "remote", "hostclaims.metal3.io/credentials")},
			&clusterv1.Cluster{ObjectMeta: named(namespace, "imported", "archelon.io/rancher-import")},
		)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "archelon-system", Name: "other-leader-election", Labels: map[string]string{"archelon.io/instance": "other"},
		Annotations: map[string]string{"archelon.io/scope": "+theirs"},
	}}
	objects = append(objects, lease)
	return fake.NewClientBuilder().WithScheme(known).WithRESTMapper(mapper()).WithObjects(objects...).Build()
}

// oursHeld returns what carries a finalizer of ours, as namespace/name.
func oursHeld(t *testing.T, api client.Reader) []string {
	t.Helper()
	held := []string{}
	for _, list := range []client.ObjectList{&metal3v1.HostClaimList{}, &corev1.SecretList{}, &clusterv1.ClusterList{}} {
		if err := api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object, _ := item.(client.Object)
			if slices.ContainsFunc(object.GetFinalizers(), func(f string) bool { return f != "somebody.else/s" }) {
				held = append(held, object.GetNamespace()+"/"+object.GetName())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(held)
	return held
}

// passTwice has the second pass find nothing to do.
func passTwice(t *testing.T, u *uninstaller) {
	t.Helper()
	if _, err := u.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := u.pass(t.Context()); left+len(u.again) != 0 || err != nil {
		t.Errorf("a second pass found %d, %v", left, err)
	}
}

// Claims are released where this instance works, and what is cut short by that is said.
func TestClaimsAreReleased(t *testing.T) {
	theirs := []string{
		"theirs/bound", "theirs/far", "theirs/far-leaving", "theirs/leaving", "theirs/remote",
	}
	for name, tc := range map[string]struct {
		reason string
		opts   Options
		held   []string
		says   []string
	}{
		"Off": {
			reason: "without the feature there are no permissions to look", opts: Options{Import: true},
			held: append([]string{
				"tenant/bound", "tenant/far", "tenant/far-leaving", "tenant/leaving", "tenant/remote",
			}, theirs...),
		},
		"On": {
			reason: "all of it, but what another instance works on", opts: Options{Import: true, HostClaims: true}, held: theirs,
			says: []string{`tenant/leaving is being deleted and its host is not clean: nobody gets BareMetalHost "infra/h1"`, "tenant/far-leaving is being deleted and its claim in the other cluster is not"},
		},
		"Without the import": {
			reason: "it has imported nothing, and may not look", opts: Options{HostClaims: true},
			held: append(slices.Clone(theirs), "tenant/imported", "theirs/imported"),
		},
		"Only": {
			reason: "the manager goes on, with what it imported", opts: Options{OnlyHostClaims: true},
			held: append(slices.Clone(theirs), "tenant/imported", "theirs/imported"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := &bytes.Buffer{}
			scope, err := tc.opts.scope()
			if err != nil {
				t.Fatal(err)
			}
			world := claimsWorld(t)
			u := &uninstaller{
				home: world, client: world, scope: scope, out: said, opts: &tc.opts, self: instance.ID{Namespace: "archelon-system", Name: "archelon"},
				released: sets.Set[heldOnce]{}, again: sets.Set[string]{},
			}
			passTwice(t, u)
			slices.Sort(tc.held)
			if diff := cmp.Diff(tc.held, oursHeld(t, u.client)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			for _, want := range tc.says {
				if !strings.Contains(said.String(), want) {
					t.Errorf("it said %q, and not %q", said, want)
				}
			}
		})
	}
}
