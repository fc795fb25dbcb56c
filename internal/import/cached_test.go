package importer

import (
	"context"
	"maps"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/rancher/rancher/pkg/apis/rke.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/import/turtles"
	"github.com/archelon-io/archelon/internal/instance"
)

// fullCluster is a CAPI cluster with what users, CAPI and Rancher Turtles write into one.
func fullCluster() *clusterv1.Cluster {
	cluster := testCluster(held)
	maps.Copy(cluster.Annotations, map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": "{}", "argocd.argoproj.io/sync-options": "Prune=false",
		"archelon.io/instance": "archelon", "imported": "true",
	})
	cluster.Labels = map[string]string{"team": "blue", "cluster-api.cattle.io/rancher-auto-import": "true"}
	cluster.Finalizers = append(cluster.Finalizers, "cluster.cluster.x-k8s.io", "capicluster.turtles.cattle.io")
	cluster.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	cluster.Spec.Paused = new(false)
	cluster.Spec.ClusterNetwork.ServiceDomain = "cluster.local"
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "quick-start"}, Version: "v1.36.0"}
	cluster.Status.Phase = "Provisioned"
	cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	for _, kind := range []string{"Available", "ControlPlaneAvailable", "RancherImported"} {
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Any", Message: "m", LastTransitionTime: metav1.Unix(1, 0),
		})
	}
	return cluster
}

// fullManagement is a v3 Cluster with what Rancher writes into one.
func fullManagement() *managementv3.Cluster {
	cluster := v3Record()
	cluster.ResourceVersion, cluster.Generation = "7", 3
	cluster.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "rancher"}}
	cluster.Labels["provider.cattle.io"] = "k3s"
	cluster.Annotations = map[string]string{
		"objectset.rio.cattle.io/applied":                           "H4sIAAAAAAAA",
		"objectset.rio.cattle.io/owner-name":                        "prod-capi",
		"lifecycle.cattle.io/create.cluster-provisioner-controller": "true",
		"authz.management.cattle.io/creator-role-bindings":          "{}",
		"archelon.io/propagated-labels":                             "team",
		"archelon.io/propagated-annotations":                        "example.com/cost,example.com/gone",
		"example.com/cost":                                          "1",
		"provisioning.cattle.io/administrated":                      "true",
		"kubectl.kubernetes.io/last-applied-configuration":          "{}",
		"field.cattle.io/no-creator-rbac":                           "true",
		"rancher.io/imported-cluster-version-management":            "false",
		"provisioner.cattle.io/encrypt-migrated":                    "true",
		"clusters.management.cattle.io/ke-last-refresh":             "1780000000",
	}
	cluster.Spec.DisplayName, cluster.Spec.Description, cluster.Spec.FleetWorkspaceName = "prod", "ours", "fleet-default"
	cluster.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "B"}}
	cluster.Spec.DesiredAgentImage = "rancher/rancher-agent:v2.15.0"
	cluster.Spec.ImportedConfig = &managementv3.ImportedConfig{KubeConfig: "s3cret", PrivateRegistryURL: "registry.example.com"}
	cluster.Status.Driver, cluster.Status.NodeCount, cluster.Status.APIEndpoint = "imported", 10, "https://10.0.0.1"
	cluster.Status.AppliedSpec.DisplayName = "prod"
	cluster.Status.Conditions = []managementv3.ClusterCondition{
		{Type: "Provisioned", Status: corev1.ConditionTrue, LastUpdateTime: "2026-01-02T03:04:05Z"},
		{Type: "Connected", Status: corev1.ConditionTrue, LastUpdateTime: "2026-01-02T03:04:05Z", LastTransitionTime: "2026-01-02T03:04:05Z", Message: "m"},
		{Type: "Ready", Status: corev1.ConditionTrue, LastUpdateTime: "2026-01-02T03:04:05Z"},
		{Type: "Waiting", Status: corev1.ConditionTrue, LastUpdateTime: "2026-01-02T03:04:05Z"},
		{Type: "AgentDeployed", Status: corev1.ConditionTrue, LastUpdateTime: "2026-01-02T03:04:05Z"},
		{Type: "NoDiskPressure", Status: corev1.ConditionTrue, LastUpdateTime: "2026-01-02T03:04:05Z"},
	}
	return cluster
}

// fullProvisioning is the same for a v1 Cluster.
func fullProvisioning() *provisioningv1.Cluster {
	from := fullManagement()
	cluster := &provisioningv1.Cluster{ObjectMeta: from.ObjectMeta}
	cluster.Namespace, cluster.Name, cluster.UID = "tenant", "prod-capi", "record-2"
	cluster.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "prod", UID: "uid-1"}}
	cluster.Spec = provisioningv1.ClusterSpec{
		AgentEnvVars: []rkev1.EnvVar{{Name: "A", Value: "B"}}, KubernetesVersion: "v1.36.0", RKEConfig: &provisioningv1.RKEConfig{},
	}
	cluster.Status = provisioningv1.ClusterStatus{ClusterName: "c-m-abcde", Ready: true, AgentDeployed: true, ObservedGeneration: 3}
	return cluster
}

// fullV3Strategy makes records as well.
type fullV3Strategy struct{ v3Strategy }

func (fullV3Strategy) Names(*clusterv1.Cluster, string) bool { return true }
func (fullV3Strategy) DisplayName(d Desired) (string, bool)  { return d.Cluster.Name, true }
func (fullV3Strategy) Render(d Desired) *unstructured.Unstructured {
	record := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"displayName": d.Cluster.Name}}}
	record.SetLabels(d.Labels)
	record.SetAnnotations(d.Annotations)
	return record
}

func reduce(t *testing.T, object client.Object) {
	t.Helper()
	if _, err := (Rules{}).Reduce(object); err != nil {
		t.Fatal(err)
	}
}

// What comes from the cache is the base of every patch. This runs all that is written on the base of whole objects, and
// on that of reduced ones: the API server has to hold the same afterwards.
func TestPatchesOfReducedObjectsAreThoseOfWholeOnes(t *testing.T) {
	for name, write := range writesOnCopies() {
		t.Run(name, func(t *testing.T) {
			whole, before, wholeErr := written(t, false, write)
			reduced, _, reducedErr := written(t, true, write)
			if wholeErr != nil || reducedErr != nil {
				t.Fatalf("failed with %v and %v", wholeErr, reducedErr)
			}
			if reflect.DeepEqual(before, whole) {
				t.Error("nothing was written")
			}
			if diff := cmp.Diff(whole, reduced); diff != "" {
				t.Errorf("(-on the base of whole objects +on that of reduced ones)\n%s", diff)
			}
		})
	}
}

// writesOnCopies are all that is written on the base of copies from the cache.
func writesOnCopies() map[string]func(context.Context, *bench, *Observation) error {
	named := func(part func(*deciding) Decision) func(context.Context, *bench, *Observation) error {
		return func(ctx context.Context, b *bench, o *Observation) error { return b.obey(ctx, o, part).Outcome.Err }
	}
	v3 := func(o *Observation) {
		for _, behind := range o.managements {
			o.records = []record{{Object: behind.object, strategy: fullV3Strategy{}}}
		}
	}
	change := func(change func(c *clusterv1.Cluster)) func(context.Context, *bench, *Observation) error {
		return named(func(d *deciding) Decision { return d.change("change it", "changing it", change) })
	}
	return map[string]func(context.Context, *bench, *Observation) error{
		"WriteAhead": named(func(d *deciding) Decision { return d.writeAhead("c-other") }),
		"TakeOver": change(func(c *clusterv1.Cluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "archelon.io/instance", "other")
		}),
		"NoteRemoval": func(ctx context.Context, b *bench, o *Observation) error {
			o.records = nil
			return named(func(d *deciding) Decision {
				gone := &record{Object: v3Record(), strategy: v3Strategy{}}
				gone.SetName("c-gone")
				gone.SetResourceVersion("1")
				d.cluster.Annotations[recordKey] = gone.id()
				if d.removed {
					return pass()
				}
				return d.removalOf(gone)
			})(ctx, b, o)
		},
		"ReleaseCluster": named((*deciding).releaseCluster),
		"ForgetAll": change(func(c *clusterv1.Cluster) {
			// Nothing is left of what is read.
			delete(c.Annotations, "imported")
			delete(c.Annotations, "archelon.io/rancher-cluster")
			delete(c.Annotations, "archelon.io/instance")
		}),
		"TakeBack": func(ctx context.Context, b *bench, o *Observation) error {
			v3(o)
			return named((*deciding).takeBack)(ctx, b, o)
		},
		"ReleaseRecord": func(ctx context.Context, b *bench, o *Observation) error {
			v3(o)
			return named(func(d *deciding) Decision {
				if d.released {
					return pass()
				}
				return release(&d.records[0])
			})(ctx, b, o)
		},
		"Abandon": named(func(d *deciding) Decision {
			if d.abandoned != nil {
				return pass()
			}
			return d.abandon(d.record)
		}),
		"Adopt": func(ctx context.Context, b *bench, o *Observation) error {
			v3(o)
			o.assigning = map[string]string{"archelon.io/managed-by": "archelon"}
			foreign := o.records[0]
			delete(foreign.GetLabels(), "archelon.io/capi-cluster-uid")
			foreign.SetFinalizers(append(foreign.GetFinalizers(), "capicluster.turtles.cattle.io"))
			b.Active = foreign.strategy
			return named((*deciding).adopt)(ctx, b, o)
		},
		"RequestRegistration": func(ctx context.Context, b *bench, o *Observation) error {
			o.terms.server = &url.URL{Scheme: "https", Host: "rancher.example.com"}
			return named(func(d *deciding) Decision { return d.requestRegistration(false) })(ctx, b, o)
		},
		"SyncV3": func(ctx context.Context, b *bench, o *Observation) error {
			v3(o)
			o.cluster.Labels["team"] = "red"
			return named((*deciding).syncRecord)(ctx, b, o)
		},
		"SyncManagement": named((*deciding).syncManagement),
	}
}

// written returns what the API server holds after the write, and before it.
func written(t *testing.T, reduced bool, write func(context.Context, *bench, *Observation) error) (after, before []client.Object, err error) {
	t.Helper()
	there := []client.Object{fullCluster(), fullManagement(), fullProvisioning()}
	for _, object := range there {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
	}
	b := newBench(t, instance.Claim{}, there...)
	read := func() []client.Object {
		objects := []client.Object{&clusterv1.Cluster{}, &managementv3.Cluster{}, &provisioningv1.Cluster{}}
		for i, object := range objects {
			if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(there[i]), object); err != nil {
				t.Fatal(err)
			}
		}
		return objects
	}
	before, copies := read(), read()
	if reduced {
		for _, object := range copies {
			reduce(t, object)
		}
	}
	cluster, isCluster := copies[0].(*clusterv1.Cluster)
	management, isManagement := copies[1].(*managementv3.Cluster)
	if !isCluster || !isManagement {
		t.Fatalf("got a %T and a %T", copies[0], copies[1])
	}
	o := seen(cluster, record{Object: copies[2], strategy: v1Strategy{}}).withManagement(management)
	err = write(t.Context(), b, o)
	after = read()
	for _, object := range append(before, after...) {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
	}
	return after, before, err
}

// What the import reads of an object, it reads of the reduced one as well.
func TestReduceKeepsWhatIsRead(t *testing.T) {
	whole, reduced := fullManagement(), fullManagement()
	reduce(t, reduced)
	if diff := cmp.Diff(connectionOf(whole), connectionOf(reduced)); diff != "" {
		t.Errorf("the connection (-whole +reduced)\n%s", diff)
	}
	for _, records := range [][2]record{
		{{Object: whole, strategy: v3Strategy{}}, {Object: reduced, strategy: v3Strategy{}}},
		{{Object: fullProvisioning(), strategy: v1Strategy{}}, {Object: reducedCopy(t, fullProvisioning()), strategy: v1Strategy{}}},
	} {
		a, b := records[0], records[1]
		if a.madeFor(testCluster(held)) != b.madeFor(testCluster(held)) || a.ofTurtles() != b.ofTurtles() || a.held() != b.held() ||
			a.stands(whole) != b.stands(reduced) || a.strategy.ManagementName(a.Object) != b.strategy.ManagementName(b.Object) ||
			!reflect.DeepEqual(ownerKeys(a.Object), ownerKeys(b.Object)) {
			t.Errorf("%s is not the same when it is reduced", a)
		}
		cluster := fullCluster()
		delete(cluster.Annotations, "imported")
		desired, err := (Rules{}).desiredRecord(cluster, a.GetName())
		if err != nil {
			t.Fatal(err)
		}
		x, errX := syncPatch(a.Object, fullV3Strategy{}.Render(desired))
		y, errY := syncPatch(b.Object, fullV3Strategy{}.Render(desired))
		if errX != nil || errY != nil || len(x) == 0 || string(x) != string(y) {
			t.Errorf("%s: patched by %s, and by %s when it is reduced: %v, %v", a, x, y, errX, errY)
		}
	}
	cluster, less := fullCluster(), fullCluster()
	reduce(t, less)
	if controlPlaneUp(cluster) != controlPlaneUp(less) || paused(cluster) != paused(less) || holds(cluster) != holds(less) || turtles.Holds(cluster) != turtles.Holds(less) {
		t.Error("the CAPI cluster is not the same when it is reduced")
	}
	a, errA := (Rules{}).desiredRecord(cluster, "x")
	b, errB := (Rules{}).desiredRecord(less, "x")
	a.Cluster, b.Cluster = nil, nil
	if diff := cmp.Diff(a, b); diff != "" || errA != nil || errB != nil {
		t.Errorf("the desired record (-whole +reduced): %v, %v\n%s", errA, errB, diff)
	}
}

func connectionOf(cluster *managementv3.Cluster) []any {
	view := viewOf(cluster)
	return []any{view.name, view.connected, view.known, view.deployed, view.since}
}

func reducedCopy(t *testing.T, object client.Object) client.Object {
	t.Helper()
	reduce(t, object)
	return object
}

// unreadOf counts the annotations of an object that nobody reads.
func unreadOf(object client.Object) int {
	count := 0
	for key := range object.GetAnnotations() {
		if !readsAnnotation(key) && key != "example.com/cost" {
			count++
		}
	}
	return count
}

// What is not read goes, and what tells objects and their versions apart stays.
func TestReduceDropsTheRest(t *testing.T) {
	v3, v1, capi := fullManagement(), fullProvisioning(), fullCluster()
	capi.Annotations["archelon.io/agent-env"] = strings.Repeat("x", 20<<10)
	for _, object := range []client.Object{v3, v1, capi} {
		uid, version := object.GetUID(), object.GetResourceVersion()
		reduce(t, object)
		if object.GetUID() != uid || object.GetResourceVersion() != version || len(object.GetManagedFields()) > 0 {
			t.Errorf("%T: UID %s, version %s, managed fields %v", object, object.GetUID(), object.GetResourceVersion(), object.GetManagedFields())
		}
		if unread := unreadOf(object); unread != 1 {
			t.Errorf("%T: %d annotations that nobody reads, want one: the last one that goes would take the others along", object, unread)
		}
		if got := object.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"]; got != "" {
			t.Errorf("%T holds an annotation that nobody reads: %s", object, got)
		}
	}
	if v3.Spec.ImportedConfig.KubeConfig != "" || v3.Spec.DesiredAgentImage != "" || v3.Status.AppliedSpec.DisplayName != "" || len(v3.Status.Conditions) != 3 || v3.Status.Conditions[0].Message != "" {
		t.Errorf("the v3 Cluster holds more than is read: %+v", v3)
	}
	if v1.Spec.RKEConfig != nil || v1.Status.Ready {
		t.Errorf("the v1 Cluster holds more than is read: %+v", v1)
	}
	if capi.Spec.Topology.Version != "" || capi.Spec.Topology.ClassRef.Name != "quick-start" || capi.Status.Phase != "Provisioned" || capi.Status.ObservedGeneration != 0 || len(capi.Status.Conditions) != 2 || len(capi.Annotations["archelon.io/agent-env"]) != 16<<10 {
		t.Errorf("the CAPI cluster holds more than is read: %+v", capi)
	}
	again := v3.DeepCopy()
	reduce(t, again)
	if diff := cmp.Diff(v3, again); diff != "" {
		t.Errorf("reduced twice it is another: (-once +twice)\n%s", diff)
	}
	other := &corev1.Secret{}
	if got, err := Reduce(other); got != other || err != nil {
		t.Errorf("what is not known came back as %v, %v", got, err)
	}
}
