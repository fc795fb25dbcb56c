package importer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	importer "github.com/archelon-io/archelon/internal/import"
	importv1 "github.com/archelon-io/archelon/internal/import/v1"
	importv3 "github.com/archelon-io/archelon/internal/import/v3"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/plan"
	"github.com/archelon-io/archelon/internal/shard"
)

const (
	planFinalizer = "archelon.io/rancher-import"
	// planOthers keeps what is deleted, as Rancher and CAPI do.
	planOthers = "example.com/others"
	planLabel  = "cluster-api.cattle.io/rancher-auto-import"
)

// planCluster is a CAPI cluster that is up and has the import label.
func planCluster(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "tenant", Name: "prod", UID: "uid-prod", Finalizers: []string{planOthers},
		Labels: map[string]string{planLabel: "true", clusterv1.WatchLabel: "mine"}, Annotations: map[string]string{},
	}}
	c.Status.Initialization.ControlPlaneInitialized = new(true)
	for _, do := range change {
		do(c)
	}
	return c
}

// planImported is one that has a Rancher cluster of a kind.
func planImported(kind string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	return planCluster(append([]func(*clusterv1.Cluster){func(c *clusterv1.Cluster) {
		c.Finalizers = []string{planFinalizer, planOthers}
		c.Annotations["archelon.io/rancher-cluster"] = kind + "/" + planName(kind, "prod")
		c.Annotations["archelon.io/instance"] = "archelon-system/archelon"
	}}, change...)...)
}

func planName(kind, cluster string) string {
	if kind == "v1" {
		return cluster + "-capi"
	}
	return "c-" + cluster
}

// planRecord is a Rancher cluster, and the v3 Cluster behind it, to which Rancher is connected.
func planRecord(kind, of string, change ...func(client.Object)) []client.Object {
	labels := map[string]string{
		"cluster-api.cattle.io/owned": "", "cluster-api.cattle.io/capi-cluster-owner": of,
		"cluster-api.cattle.io/capi-cluster-owner-ns": "tenant", "archelon.io/capi-cluster-uid": "uid-" + of,
	}
	v3 := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: "c-" + of, UID: types.UID("v3-" + of), Labels: labels, Finalizers: []string{planFinalizer, planOthers},
		Annotations: map[string]string{"rancher.io/imported-cluster-version-management": "false"},
	}}
	v3.Spec.DisplayName, v3.Spec.Description = of, "CAPI cluster imported to Rancher"
	for _, is := range []managementv3.ClusterConditionType{"Connected", "Waiting"} {
		v3.Status.Conditions = append(v3.Status.Conditions, managementv3.ClusterCondition{Type: is, Status: corev1.ConditionTrue})
	}
	objects := []client.Object{v3}
	if kind == "v1" {
		v3.Finalizers = []string{planOthers}
		v3.Annotations["provisioning.cattle.io/administrated"] = "true"
		v3.Annotations["objectset.rio.cattle.io/owner-namespace"] = "tenant"
		v3.Annotations["objectset.rio.cattle.io/owner-name"] = planName(kind, of)
		v1 := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: "tenant", Name: planName(kind, of), UID: types.UID("v1-" + of), Labels: labels, Finalizers: []string{planFinalizer, planOthers},
		}}
		v1.Status.ClusterName = v3.Name
		objects = []client.Object{v1, v3}
	}
	for _, do := range change {
		do(objects[0])
	}
	return objects
}

func planDeleted(object client.Object) { object.SetDeletionTimestamp(new(metav1.Now())) }

// planScenarios has for each thing that the import does the objects that it begins with.
func planScenarios(kind, other string) map[string][]client.Object {
	of := func(cluster *clusterv1.Cluster, change ...func(client.Object)) []client.Object {
		return append(planRecord(kind, cluster.Name, change...), cluster)
	}
	return map[string][]client.Object{
		"import":                  {planCluster()},
		"no control plane":        {planCluster(func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = nil })},
		"idle":                    {planCluster(func(c *clusterv1.Cluster) { delete(c.Labels, planLabel) })},
		"pause":                   {planCluster(func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })},
		"delete":                  of(planImported(kind, func(c *clusterv1.Cluster) { planDeleted(c) })),
		"un-import":               of(planImported(kind, func(c *clusterv1.Cluster) { c.Labels[planLabel] = "false" })),
		"leave to others":         of(planImported(kind, func(c *clusterv1.Cluster) { delete(c.Labels, clusterv1.WatchLabel) }), planDeleted),
		"release orphans":         planRecord(kind, "prod", planDeleted),
		"settled":                 of(planImported(kind)),
		"removed":                 of(planImported(kind), planDeleted),
		"other kind":              append(planRecord(other, "prod"), planImported(other)),
		"other kind, not created": {planImported(other)},
		"take over, update and rename": of(planImported(kind, func(c *clusterv1.Cluster) {
			c.Labels["tier"], c.Annotations["archelon.io/display-name"] = "gold", "other"
			c.Annotations["archelon.io/instance"] = "elsewhere"
		})),
		"adopt": of(planCluster(func(c *clusterv1.Cluster) { c.Annotations["archelon.io/managed-by"] = "archelon" }),
			func(record client.Object) {
				delete(record.GetLabels(), "archelon.io/capi-cluster-uid")
				record.SetFinalizers([]string{"capicluster.turtles.cattle.io"})
			}),
		"not connected": of(planImported(kind), func(record client.Object) {
			if v3, ok := record.(*managementv3.Cluster); ok {
				v3.Status.Conditions = nil
			}
		}),
	}
}

// What a plan says is what the controller then writes, for every intent.
func TestPlanIsWhatIsDone(t *testing.T) {
	intents := map[string]bool{}
	for _, kind := range []string{"v1", "v3"} {
		other := map[string]string{"v1": "v3", "v3": "v1"}[kind]
		for name, objects := range planScenarios(kind, other) {
			t.Run(kind+" "+name, func(t *testing.T) {
				said, intent := planned(t, kind, objects)
				intents[intent] = true
				if diff := cmp.Diff(said, done(t, kind, objects)); diff != "" {
					t.Errorf("(-planned +done):\n%s", diff)
				}
			})
		}
	}
	for _, intent := range []string{
		"idle", "import", "pause", "delete", "un-import", "leave to others", "release orphans",
	} {
		if !intents[intent] {
			t.Errorf("nothing has the intent %q", intent)
		}
	}
}

func planWorld(t *testing.T, objects []client.Object) client.WithWatch {
	t.Helper()
	all := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}},
		&managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: "server-url"}, Value: "https://rancher.example.com"},
	}
	for _, object := range objects {
		copied, _ := object.DeepCopyObject().(client.Object)
		all = append(all, copied)
	}
	return importer.NewWorld(t, all...)
}

// planned returns the writes of a plan, and its intent.
func planned(t *testing.T, kind string, objects []client.Object) (writes []string, intent string) {
	t.Helper()
	opts, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	opts.WatchFilter = "mine"
	if err := opts.Gates.Set(fmt.Sprintf("managementv3-cluster=%t", kind == "v3")); err != nil {
		t.Fatal(err)
	}
	reader := interceptor.NewClient(planWorld(t, objects), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, leases := list.(*coordinationv1.LeaseList); leases {
				return nil
			}
			return c.List(ctx, list, options...)
		},
	})
	plans, err := plan.Look(t.Context(), plan.FromOne(reader), plan.Options{Manager: opts})
	if err != nil || len(plans) != 1 {
		t.Fatalf("got %+v, %v", plans, err)
	}
	for _, c := range plans[0].Changes {
		writes = append(writes, c.Verb+" "+c.Resource+" "+drawn(c.Name))
	}
	return writes, plans[0].Intent
}

// drawn hides names that are drawn when a Rancher cluster is created.
func drawn(name string) string {
	if strings.HasPrefix(name, "c-") && name != "c-prod" {
		return "c-?"
	}
	return name
}

// done returns what the controller writes until it writes no more.
func done(t *testing.T, kind string, objects []client.Object) []string {
	t.Helper()
	var writes []string
	note := func(verb string, object client.Object) {
		resource := "clusters.management.cattle.io"
		switch object.GetObjectKind().GroupVersionKind().Group {
		case "cluster.x-k8s.io":
			resource = "clusters.cluster.x-k8s.io"
		case "provisioning.cattle.io":
			resource = "clusters.provisioning.cattle.io"
		}
		switch object.(type) {
		case *clusterv1.Cluster:
			resource = "clusters.cluster.x-k8s.io"
		case *provisioningv1.Cluster:
			resource = "clusters.provisioning.cattle.io"
		}
		writes = append(writes, verb+" "+resource+" "+drawn(object.GetName()))
	}
	c := interceptor.NewClient(planWorld(t, objects), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			note("create", object)
			return c.Create(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			note("patch", object)
			return c.Patch(ctx, object, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			note("delete", object)
			return c.Delete(ctx, object, opts...)
		},
		SubResourceApply: func(
			ctx context.Context, c client.Client, sub string, apply runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
		) error {
			writes = append(writes, "patch clusters.cluster.x-k8s.io/"+sub+" prod")
			return c.SubResource(sub).Apply(ctx, apply, opts...)
		},
	})
	var active, other importer.Strategy = importv1.Strategy{}, importv3.Strategy{}
	if kind == "v3" {
		active, other = other, active
	}
	process := importer.NewProcess(t, c, active, other)
	scope, err := shard.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	process.Self = instance.ID{Namespace: "archelon-system", Name: "archelon"}
	process.Claim = instance.Claim{Scope: scope, WatchFilter: "mine"}
	process.FleetWorkspaces = []string{"fleet-default"}
	for before := []string{"begin"}; !slices.Equal(before, writes); {
		before = slices.Clone(writes)
		for range 2 { // A run may only have learned that another one is to follow.
			_, err := process.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "tenant", Name: "prod"}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return writes
}
