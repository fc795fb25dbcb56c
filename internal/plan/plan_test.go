package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

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

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
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
func management(tb testing.TB, lists *int, objects ...client.Object) client.Reader {
	tb.Helper()
	known, err := scheme.New()
	if err != nil {
		tb.Fatal(err)
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
func look(tb testing.TB, reader client.Reader, opts Options, args ...string) []Cluster {
	tb.Helper()
	opts.Manager = managerWith(tb, args...)
	plans, err := Look(tb.Context(), FromOne(reader), opts)
	if err != nil {
		tb.Fatal(err)
	}
	return plans
}

func managerWith(tb testing.TB, args ...string) *options.Options {
	tb.Helper()
	manager, err := options.New()
	if err != nil {
		tb.Fatal(err)
	}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "gates":
			err = manager.Gates.Set(value)
		case "display-name":
			manager.DisplayName = value
		case "excluded":
			manager.ExcludedNamespaces = []string{value}
		case "namespace":
			manager.Namespaces = []string{value}
		case "instance":
			manager.Instance = value
		}
		if err != nil {
			tb.Fatal(err)
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
	waits := "prod | import | then WaitingForRancher: Created the Rancher cluster. Waiting for Rancher to issue its registration token, usually less than 10 seconds. After a minute, check the log of Rancher"
	for name, tc := range map[string]struct {
		opts Options
		args string
		want []string
	}{
		"V3": {Options{Labels: []string{"team-a"}}, "gates=managementv3-cluster=true", []string{
			"prod | import | patch | clusters.cluster.x-k8s.io | prod | CAPI cluster team-a/prod: write ahead the name of its Rancher cluster, v3/c-NEW-team-a-prod",
			"prod | import | create | clusters.management.cattle.io | c-NEW-team-a-prod | v3 Rancher cluster c-NEW-team-a-prod: create it",
			"prod | import | patch | clusters.cluster.x-k8s.io/status | prod | CAPI cluster team-a/prod: set condition RancherImported to False, WaitingForRancher",
			waits,
		}},
		"V1": {Options{Labels: []string{"team-a/prod"}}, "", []string{
			"prod | import | patch | clusters.cluster.x-k8s.io | prod | CAPI cluster team-a/prod: write ahead the name of its Rancher cluster, v1/prod-capi",
			"prod | import | create | clusters.provisioning.cattle.io | prod-capi | v1 Rancher cluster team-a/prod-capi: create it",
			"prod | import | patch | clusters.cluster.x-k8s.io/status | prod | CAPI cluster team-a/prod: set condition RancherImported to False, WaitingForRancher",
			waits,
		}},
		"False":    {Options{Labels: []string{"team-a=false"}}, "", []string{"prod | idle | then nothing"}},
		"Excluded": {Options{Labels: []string{"team-a"}}, "excluded=team-a", []string{}},
		"Another":  {Options{Labels: []string{"team-a"}, Which: []string{"team-b"}}, "", []string{}},
		"Named":    {Options{Which: []string{"team-b", "team-a/prod"}}, "", []string{"prod | idle | then nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(look(t, reader, tc.opts, tc.args))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, opts := range []Options{
		{Labels: []string{"team-c"}}, {Labels: []string{"team-a/other"}}, {Which: []string{"team-a/other"}}, {Which: []string{"team-b/prod"}},
	} {
		opts.Manager = managerWith(t)
		if _, err := Look(t.Context(), FromOne(reader), opts); err == nil {
			t.Errorf("%+v: what there is not passes", opts)
		}
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
	plans = look(t, reader, Options{}, "gates=managementv3-cluster=true", "display-name=NamespaceName")
	if len(plans) != 2 || plans[0].Reason != "WaitingForRancher" || plans[1].Reason != "WaitingForRancher" {
		t.Errorf("with their namespaces: got %q", texts(plans))
	}
}

// imported is CAPI cluster prod with a Rancher cluster of the v3 kind.
func imported(change ...func(*clusterv1.Cluster, *managementv3.Cluster)) []client.Object {
	name := "prod"
	c := cluster(name, map[string]string{label: "true"})
	c.Finalizers = []string{"archelon.io/rancher-import"}
	c.Annotations = map[string]string{"archelon.io/rancher-cluster": "v3/c-" + name, "archelon.io/instance": "archelon-system/archelon"}
	record := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-" + name, UID: types.UID("of-" + name), Labels: map[string]string{
		"cluster-api.cattle.io/owned": "", "cluster-api.cattle.io/capi-cluster-owner": name,
		"cluster-api.cattle.io/capi-cluster-owner-ns": c.Namespace, "archelon.io/capi-cluster-uid": string(c.UID),
	}, Finalizers: c.Finalizers, Annotations: map[string]string{"rancher.io/imported-cluster-version-management": "false"}}}
	record.Spec.DisplayName, record.Spec.Description = name, "CAPI cluster imported to Rancher"
	for _, kind := range []managementv3.ClusterConditionType{"Connected", "Waiting"} {
		record.Status.Conditions = append(record.Status.Conditions, managementv3.ClusterCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	for _, do := range change {
		do(c, record)
	}
	return []client.Object{c, record}
}

const v3 = "gates=managementv3-cluster=true"

// What depends on a workload cluster is said to be unseen, and nothing of it is made up.
func TestAgent(t *testing.T) {
	lists := 0
	reader := management(t, &lists, append(imported(func(_ *clusterv1.Cluster, record *managementv3.Cluster) {
		record.Status.Conditions = nil
	}), namespace("team-a"))...)
	want := []string{
		"prod | import | patch | clusters.cluster.x-k8s.io/status | prod | CAPI cluster team-a/prod: set condition RancherImported to False, ConnectingAgent",
		"prod | import | then look at the agent in the workload cluster (agent: not looked at)",
	}
	if diff := cmp.Diff(want, texts(look(t, reader, Options{}, v3))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Annotations say how the agent gets into a workload cluster; the gate says whether they may.
func TestConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		args        string
		want        []string
	}{
		"Usual": {want: []string{"", "", "then look at the agent in the workload cluster (agent: not looked at)"}},
		"Secret": {annotations: map[string]string{"archelon.io/kubeconfig-secret": "prod-tunnel/admin", "archelon.io/kubeconfig-context": "tenant"}, want: []string{
			"", "prod-tunnel/admin tenant", "then look at the agent in the workload cluster (agent: not looked at, kubeconfig: Secret prod-tunnel/admin tenant)",
		}},
		"Refused": {annotations: map[string]string{"archelon.io/agent-delivery": "manual"}, want: []string{"", "", "then InvalidSetting"}},
		"Manual": {annotations: map[string]string{"archelon.io/agent-delivery": "manual", "archelon.io/kubeconfig-secret": "prod-tunnel"}, args: ",agent-manifest=true", want: []string{
			"team-a/prod-rancher-agent", "", "then WaitingForAgent",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			lists := 0
			reader := management(t, &lists, append(imported(func(c *clusterv1.Cluster, record *managementv3.Cluster) {
				record.Status.Conditions = nil
				maps.Copy(c.Annotations, tc.annotations)
			}), namespace("team-a"))...)
			plan := look(t, reader, Options{}, v3+tc.args)[0]
			then, _, _ := strings.Cut(plan.then(), ": Waiting for the connection of Rancher's agent, which Archelon does not install")
			then, _, _ = strings.Cut(then, ": Annotation archelon.io/agent-delivery cannot be used")
			if diff := cmp.Diff(tc.want, []string{plan.Delivery, plan.Kubeconfig, then}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What is imported stays as it is when the gate is flipped.
func TestKindStays(t *testing.T) {
	lists := 0
	got := texts(look(t, management(t, &lists, append(imported(), namespace("team-a"))...), Options{}))
	if diff := cmp.Diff([]string{
		"prod | import | patch | clusters.cluster.x-k8s.io/status | prod | CAPI cluster team-a/prod: set condition RancherImported to True, Imported",
		"prod | import | then Imported",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What follows from a write is part of the plan: a Rancher cluster that nobody else holds is gone at once.
func TestRunsFollow(t *testing.T) {
	lists := 0
	plans := look(t, management(t, &lists, append(imported(), namespace("team-a"))...), Options{Labels: []string{"team-a/prod=false"}}, v3)
	var verbs []string
	for _, c := range plans[0].Changes {
		verbs = append(verbs, c.Verb+" "+c.Resource)
	}
	want := []string{
		"patch clusters.management.cattle.io", "delete clusters.management.cattle.io", "patch clusters.cluster.x-k8s.io",
	}
	if diff := cmp.Diff(want, verbs); diff != "" {
		t.Errorf("%s (-want +got):\n%s", plans[0].Reason, diff)
	}
}

// lease is that of an instance which runs.
func lease(in string) client.Object {
	holder, lasts, now := "somebody", int32(15), metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "archelon-system", Name: "archelon-leader-election", Labels: map[string]string{"archelon.io/instance": "archelon"},
			Annotations: map[string]string{"archelon.io/scope": in, "archelon.io/works-in": in},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &lasts, RenewTime: &now},
	}
}

// An instance releases what it has in a namespace that it gives up. Whoever works there then takes it over.
func TestScope(t *testing.T) {
	lists := 0
	reader := management(t, &lists, append(imported(), namespace("team-a"), lease("*"))...)
	const why = " | release it: its namespace is none of the instance's any more"
	if _, err := Look(t.Context(), FromOne(reader), Options{Manager: managerWith(t, "instance=second")}); err == nil || !strings.Contains(err.Error(), "no namespace") {
		t.Errorf("a second one for all namespaces: %v", err)
	}
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"GivesUp": {[]string{v3, "excluded=team-a", "instance=archelon"}, []string{
			"prod | leave its namespace | patch | clusters.management.cattle.io | c-prod" + why,
			"prod | leave its namespace | patch | clusters.cluster.x-k8s.io | prod" + why,
			"prod | leave its namespace | then nothing",
		}},
		// The one that is there has all namespaces, and one that names a namespace comes first.
		"Another": {[]string{v3, "namespace=team-a", "instance=second"}, []string{
			`prod | import | patch | clusters.cluster.x-k8s.io | prod | CAPI cluster team-a/prod: take it over from instance "archelon-system/archelon"`,
			"prod | import | patch | clusters.cluster.x-k8s.io/status | prod | CAPI cluster team-a/prod: set condition RancherImported to True, Imported",
			"prod | import | then Imported",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(look(t, reader, Options{}, tc.args...))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A Lease of Turtles counts where Turtles runs, and while it is renewed.
func TestTurtles(t *testing.T) {
	for name, tc := range map[string]struct {
		age       time.Duration
		namespace string
		want      string
	}{
		"Runs":      {0, "cattle-turtles-system", "TurtlesActive"},
		"Ended":     {time.Hour, "cattle-turtles-system", "WaitingForRancher"},
		"Elsewhere": {0, "team-b", "WaitingForRancher"},
	} {
		t.Run(name, func(t *testing.T) {
			lists := 0
			turtles, _ := lease("*").(*coordinationv1.Lease)
			turtles.ObjectMeta = metav1.ObjectMeta{Namespace: tc.namespace, Name: "controller-leader-election-rancher-turtles"}
			renewed := metav1.NewMicroTime(time.Now().Add(-tc.age))
			turtles.Spec.RenewTime = &renewed
			reader := management(t, &lists, namespace("team-a"), cluster("prod", map[string]string{label: "true"}), turtles)
			if got := look(t, reader, Options{}, v3); len(got) != 1 || got[0].Reason != tc.want {
				t.Errorf("got %q, want %s", texts(got), tc.want)
			}
		})
	}
}

// An identity that is not for a cluster keeps it from being imported.
func TestPrincipal(t *testing.T) {
	lists := 0
	c := cluster("prod", map[string]string{label: "true"})
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "OCICluster", Name: "prod"}
	infrastructure := &infrav1.OCICluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "prod"}}
	infrastructure.Spec.IdentityRef = &corev1.ObjectReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "OCIClusterIdentity", Namespace: "team-a", Name: "missing",
	}
	reader := management(t, &lists, namespace("team-a"), c, infrastructure)
	if got := look(t, reader, Options{}, "gates=oci-cluster-identity=true"); len(got) != 1 || got[0].Reason != "IdentityNotFound" || lists != 10 {
		t.Errorf("got %q after %d lists", texts(got), lists)
	}
	if got := look(t, reader, Options{}); len(got) != 1 || got[0].Reason != "WaitingForRancher" {
		t.Errorf("without the gate: %q", texts(got))
	}
}

// many returns a management cluster with clusters of which half have a Rancher cluster.
func many(tb testing.TB, lists *int, clusters int) client.Reader {
	tb.Helper()
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
	return management(tb, lists, objects...)
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
