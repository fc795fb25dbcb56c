package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/scheme"
)

const label = "cluster-api.cattle.io/rancher-auto-import"

// namespace and cluster are what there is in a management cluster.
func namespace(name string) client.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func cluster(name string, labels map[string]string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: name, Labels: labels, UID: types.UID("uid-" + name),
	}}
	c.Status.Initialization.ControlPlaneInitialized = new(true)
	return c
}

func serverURL() client.Object {
	return &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: "server-url"}, Value: "https://rancher.example.com"}
}

// management is a reader that counts lists, and fails for all else.
func management(t testing.TB, lists *int, objects ...client.Object) client.Reader {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(known).WithObjects(append(objects, serverURL())...).
		WithIndex(&coordinationv1.Lease{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				*lists++
				return c.List(ctx, list, opts...)
			},
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return errors.New("a plan is made from lists")
			},
		}).Build()
}

// look makes plans with the arguments of a manager.
func look(t testing.TB, reader client.Reader, opts Options, args ...string) []Cluster {
	t.Helper()
	opts.Manager = managerWith(t, args...)
	plans, err := Look(t.Context(), reader, opts)
	if err != nil {
		t.Fatal(err)
	}
	return plans
}

func managerWith(t testing.TB, args ...string) *options.Options {
	t.Helper()
	manager, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "gates":
			err = manager.Gates.Set(value)
		case "excluded":
			manager.ExcludedNamespaces = []string{value}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return manager
}

// texts has plans in lines.
func texts(plans []Cluster) []string {
	lines := []string{}
	for _, plan := range plans {
		for _, c := range plan.Changes {
			lines = append(lines, strings.Join([]string{plan.Name, plan.Intent, c.Verb, c.Resource, c.Name, c.Does}, " | "))
		}
		lines = append(lines, plan.Name+" | "+plan.Intent+" | "+plan.then())
	}
	return lines
}

func TestImport(t *testing.T) {
	lists := 0
	reader := management(t, &lists, namespace("team-a"), cluster("prod", nil))
	if got := texts(look(t, reader, Options{})); !cmp.Equal(got, []string{"prod | idle | then nothing"}) {
		t.Errorf("without a label: %q", got)
	}
	waits := "prod | import | then WaitingForRancher: The Rancher cluster was made; Rancher has yet to prepare its registration: if that lasts, look at the logs of Rancher"
	for name, tc := range map[string]struct {
		opts Options
		args string
		want []string
	}{
		"V3": {Options{Labels: []string{"team-a"}}, "gates=managementv3-cluster=true", []string{
			"prod | import | patch | clusters.cluster.x-k8s.io | prod | CAPI cluster team-a/prod: write ahead the name of its record, v3/c-NEW-team-a-prod",
			"prod | import | create | clusters.management.cattle.io | c-NEW-team-a-prod | v3 Rancher cluster c-NEW-team-a-prod: create it",
			"prod | import | patch | clusters.cluster.x-k8s.io/status | prod | CAPI cluster team-a/prod: set condition RancherImported to False, WaitingForRancher",
			waits,
		}},
		"V1": {Options{Labels: []string{"team-a/prod"}}, "", []string{
			"prod | import | patch | clusters.cluster.x-k8s.io | prod | CAPI cluster team-a/prod: write ahead the name of its record, v1/prod-capi",
			"prod | import | create | clusters.provisioning.cattle.io | prod-capi | v1 Rancher cluster team-a/prod-capi: create it",
			"prod | import | patch | clusters.cluster.x-k8s.io/status | prod | CAPI cluster team-a/prod: set condition RancherImported to False, WaitingForRancher",
			waits,
		}},
		"False":    {Options{Labels: []string{"team-a=false"}}, "", []string{"prod | idle | then nothing"}},
		"Excluded": {Options{Labels: []string{"team-a"}}, "excluded=team-a", []string{}},
		"Another":  {Options{Labels: []string{"team-a"}, Which: []string{"team-b", "team-a/other"}}, "", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(look(t, reader, tc.opts, tc.args))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Look(t.Context(), reader, Options{Manager: managerWith(t), Labels: []string{"team-c"}}); err == nil {
		t.Error("a label on a Namespace that there is not passes")
	}
}

// Two imports that want the same name do not both get it.
func TestTwoOfOneName(t *testing.T) {
	lists, other := 0, cluster("prod", map[string]string{label: "true"})
	other.Namespace, other.UID = "team-b", "another"
	reader := management(t, &lists, namespace("team-a"), namespace("team-b"), cluster("prod", map[string]string{label: "true"}), other)
	plans := look(t, reader, Options{}, "gates=managementv3-cluster=true")
	if len(plans) != 2 || plans[0].Reason != "WaitingForRancher" || plans[1].Reason != "DisplayNameTaken" {
		t.Errorf("got %q", texts(plans))
	}
}

// many returns a management cluster with clusters of which half have a Rancher cluster.
func many(t testing.TB, lists *int, clusters int) client.Reader {
	t.Helper()
	objects := []client.Object{namespace("team-a")}
	for i := range clusters {
		c := cluster(fmt.Sprintf("c%04d", i), map[string]string{label: "true"})
		if i%2 == 0 {
			record := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-b%04d", i), UID: types.UID(c.Name), Labels: map[string]string{
				"cluster-api.cattle.io/owned": "", "cluster-api.cattle.io/capi-cluster-owner": c.Name,
				"cluster-api.cattle.io/capi-cluster-owner-ns": c.Namespace, "archelon.io/capi-cluster-uid": string(c.UID),
			}}}
			record.Spec.DisplayName = c.Name
			objects = append(objects, record)
		}
		objects = append(objects, c)
	}
	return management(t, lists, objects...)
}

// It takes one list of each kind, however many clusters there are.
func TestLists(t *testing.T) {
	for _, clusters := range []int{1, 100} {
		lists := 0
		plans := look(t, many(t, &lists, clusters), Options{}, "gates=managementv3-cluster=true")
		if len(plans) != clusters || lists != 7 || !errors.Is(changes(plans), ErrChanges) {
			t.Errorf("%d plans from %d lists", len(plans), lists)
		}
	}
}

// BenchmarkLook makes plans for 1,000 clusters.
func BenchmarkLook(b *testing.B) {
	lists := 0
	reader := many(b, &lists, 1000)
	for b.Loop() {
		look(b, reader, Options{}, "gates=managementv3-cluster=true")
	}
}
