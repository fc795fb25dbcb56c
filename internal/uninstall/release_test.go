package uninstall

import (
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/scheme"
)

// imported returns a CAPI cluster that an instance works on, and its record.
func imported(namespace, name, by, filter string) []client.Object {
	finalizers := []string{"archelon.io/rancher-import"}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Finalizers: finalizers,
		Annotations: map[string]string{"archelon.io/rancher-cluster": "v1/" + name}, Labels: map[string]string{"cluster.x-k8s.io/watch-filter": filter},
	}}
	if by != "" {
		cluster.Annotations["archelon.io/instance"] = by
	}
	record := metav1.ObjectMeta{Namespace: namespace, Name: name + "-capi", Finalizers: finalizers, Labels: map[string]string{
		"archelon.io/capi-cluster-uid": "uid-" + name, "cluster-api.cattle.io/capi-cluster-owner-ns": namespace,
	}}
	v3 := record
	v3.Namespace = ""
	return []client.Object{cluster, &provisioningv1.Cluster{ObjectMeta: record}, &managementv3.Cluster{ObjectMeta: v3}}
}

// uninstallerOf returns an uninstaller of archelon-system/archelon, and clusters in two namespaces for it.
func uninstallerOf(t *testing.T, opts *Options) *uninstaller {
	t.Helper()
	const self, other = "archelon-system/archelon", "archelon-system/other"
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	scope, err := opts.scope()
	if err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "archelon-system", Name: "other-leader-election", Labels: map[string]string{"archelon.io/instance": "other"},
			Annotations: map[string]string{"archelon.io/scope": "+tenant,left"},
		},
	}
	api := fake.NewClientBuilder().WithScheme(known).WithRESTMapper(mapper()).WithObjects(lease).WithObjects(slices.Concat(
		imported("tenant", "ours", self, "blue"), imported("tenant", "unnamed", "", "blue"), imported("tenant", "theirs", other, "blue"), imported("tenant", "forsaken", "gone-system/archelon", "blue"),
		imported("tenant", "was-ours", self, "green"), imported("tenant", "never-ours", "", "green"),
		imported("left", "left-by-us", self, "blue"), imported("left", "not-by-us", "", "blue"), imported("left", "taken-over", other, "blue"),
	)...).Build()
	return &uninstaller{
		home: api, client: api, scope: scope, out: io.Discard, opts: opts, self: instance.ID{Namespace: "archelon-system", Name: "archelon"},
		released: sets.Set[heldOnce]{}, again: sets.Set[string]{},
	}
}

// What an instance imported before its scope was narrowed is let go with the rest; what is another's is not.
func TestPass(t *testing.T) {
	for name, tc := range map[string]struct {
		reason                string
		namespaces, except    []string
		filter                string
		deleteRancherClusters bool
		held, deleted         []string
		outside               int
	}{
		"Everything": {
			reason: "but what another instance works on",
			held:   []string{"taken-over", "theirs"},
		},
		"Narrowed": {
			reason: "what names it is its own, in the scope or not", except: []string{"left"}, filter: "blue",
			held: []string{"never-ours", "not-by-us", "taken-over", "theirs"}, outside: 2,
		},
		"NarrowedAndDeletes": {
			reason: "what is not in the scope any more may be meant for another instance", except: []string{"left"}, filter: "blue", deleteRancherClusters: true,
			held: []string{"never-ours", "not-by-us", "taken-over", "theirs"}, deleted: []string{"ours", "unnamed"}, outside: 2,
		},
		"Isolated": {
			reason: "it has no rights elsewhere", namespaces: []string{"tenant"}, filter: "blue",
			held: []string{"left-by-us", "never-ours", "not-by-us", "taken-over", "theirs"}, outside: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := uninstallerOf(t, &Options{Import: true, Namespaces: tc.namespaces, ExcludedNamespaces: tc.except, WatchFilter: tc.filter, DeleteRancherClusters: tc.deleteRancherClusters})
			if _, err := u.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left, err := u.pass(t.Context()); left+len(u.again) != 0 || err != nil {
				t.Fatalf("a second pass found %d, %v: nothing is to be left", left, err)
			}
			if u.count.outside != tc.outside {
				t.Errorf("got %d clusters outside of the scope, want %d", u.count.outside, tc.outside)
			}
			held, deleted := outcome(t, u.client)
			if diff := cmp.Diff(tc.held, held); diff != "" {
				t.Errorf("held (-want +got):\n%s%s", diff, tc.reason)
			}
			if diff := cmp.Diff(tc.deleted, deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s%s", diff, tc.reason)
			}
		})
	}
}

// outcome returns the names of the CAPI clusters that are held, and of those whose record was deleted. A cluster and
// its records are held alike, and one names its record as long as that is there.
func outcome(t *testing.T, api client.Reader) (held, deleted []string) {
	t.Helper()
	clusters := &clusterv1.ClusterList{}
	if err := api.List(t.Context(), clusters); err != nil {
		t.Fatal(err)
	}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if len(cluster.Finalizers) > 0 {
			held = append(held, cluster.Name)
		}
		there := recordsOf(t, api, cluster)
		if there == 0 {
			deleted = append(deleted, cluster.Name)
		}
		if named := cluster.Annotations["archelon.io/rancher-cluster"] != ""; named != (there == 2) {
			t.Errorf("%s names its record: %t, and %d of 2 are there", cluster.Name, named, there)
		}
	}
	slices.Sort(held)
	slices.Sort(deleted)
	return held, deleted
}

func recordsOf(t *testing.T, api client.Reader, cluster *clusterv1.Cluster) int {
	t.Helper()
	there := 0
	for namespace, record := range map[string]client.Object{cluster.Namespace: &provisioningv1.Cluster{}, "": &managementv3.Cluster{}} {
		switch err := api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: cluster.Name + "-capi"}, record); {
		case client.IgnoreNotFound(err) != nil:
			t.Fatal(err)
		case err != nil:
			continue
		case len(record.GetFinalizers()) != len(cluster.Finalizers):
			t.Errorf("%T of %s has finalizers %v, it has %v", record, cluster.Name, record.GetFinalizers(), cluster.Finalizers)
		}
		there++
	}
	return there
}
