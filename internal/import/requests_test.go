package importer_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/agent"
	importer "github.com/archelon-io/archelon/internal/import"
	importv1 "github.com/archelon-io/archelon/internal/import/v1"
	importv3 "github.com/archelon-io/archelon/internal/import/v3"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/rancher"
)

// counted is an import whose requests to the management cluster are counted.
type counted struct {
	t       *testing.T
	store   client.WithWatch
	clock   *clocktesting.FakePassiveClock
	rules   importer.Rules
	control *importer.Reconciler
	// requests are those of the manager, and read is what users read in the condition, one after the other.
	requests map[string]int
	read     []string
	key      client.ObjectKey
	agent    installed
	// applied are the kinds that were applied in the workload cluster, one list for each time; then is called meanwhile.
	applied [][]string
	then    func()
}

func newCounted(t *testing.T, kind string) *counted {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "tenant", Name: "prod", UID: "uid-1", Labels: map[string]string{importLabel: "true", "tier": "gold"},
		Annotations: map[string]string{"archelon.io/description": "of the tenant"},
	}}
	cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	objects := []client.Object{cluster, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "prod-kubeconfig"}}}
	for name, value := range map[string]string{"server-url": simURL, "cacerts": "", "agent-tls-mode": "system-store"} {
		objects = append(objects, &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
	}
	c := &counted{
		t: t, store: importer.NewWorld(t, objects...), clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)),
		requests: map[string]int{}, key: client.ObjectKeyFromObject(cluster),
	}
	rules := importer.Rules{Active: importv3.Strategy{}, Others: []importer.Strategy{importv1.Strategy{}}, Self: instance.ID{Name: "archelon"}}
	if kind == "v1" {
		rules.Active, rules.Others = rules.Others[0], []importer.Strategy{rules.Active}
	}
	c.rules = rules
	c.restart()
	return c
}

// restart has a new process go on with the import.
func (c *counted) restart() {
	c.t.Helper()
	rules, live := c.rules, c.live()
	control, err := importer.Simulated{
		Rules: rules, Client: c.cached(), Live: live, Names: shown{c.store}, Clock: c.clock, Downloader: c,
		Open: func(ctx context.Context, key types.NamespacedName) (importer.Site, error) {
			return blank{c.agent, c}, live.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-kubeconfig"}, &corev1.Secret{})
		},
	}.Start(ctrl.LoggerInto(c.t.Context(), logr.Discard()), simShared())
	if err != nil {
		c.t.Fatal(err)
	}
	control.Recorder = c
	c.control = control
}

func (c *counted) count(verb string, object runtime.Object) {
	gvk, err := c.store.GroupVersionKindFor(object)
	if err != nil {
		c.t.Fatal(err)
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	c.requests[strings.TrimSuffix(verb+" "+plural.GroupResource().String(), ".")]++
}

// cached is the client of the manager: it reads from a cache.
func (c *counted) cached() client.Client {
	return interceptor.NewClient(c.store, interceptor.Funcs{
		Create: func(ctx context.Context, store client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			c.count("create", object)
			object.SetUID(types.UID("uid-of-" + object.GetName()))
			object.SetCreationTimestamp(metav1.NewTime(c.clock.Now()))
			return store.Create(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, store client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			c.count("patch", object)
			return store.Patch(ctx, object, patch, opts...)
		},
		Delete: func(ctx context.Context, store client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			c.count("delete", object)
			return store.Delete(ctx, object, opts...)
		},
		SubResourceApply: func(
			ctx context.Context, store client.Client, sub string, apply runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
		) error {
			c.requests["patch clusters.cluster.x-k8s.io/"+sub]++
			return store.SubResource(sub).Apply(ctx, apply, opts...)
		},
	})
}

// live reads from the API server.
func (c *counted) live() client.Client {
	return interceptor.NewClient(c.store, interceptor.Funcs{
		Get: func(ctx context.Context, store client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			c.count("get", object)
			return store.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, store client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, own := list.(*metav1.PartialObjectMetadataList); !own { // Which cluster is Rancher's own is asked once for all imports.
				c.count("list", list)
			}
			return store.List(ctx, list, opts...)
		},
	})
}

// Eventf implements events.EventRecorder: each Event is a request.
func (c *counted) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {
	c.requests["create events.events.k8s.io"]++
}

// Manifest implements importer.Downloader.
func (*counted) Manifest(_ context.Context, registration rancher.Registration, _ rancher.Trust) (*rancher.Manifest, error) {
	return manifestOf(registration.Tokens()[0], "")
}

// reconcile has the import do what it can, and returns when it wants to look again.
func (c *counted) reconcile() time.Duration {
	c.t.Helper()
	result, err := c.control.Reconcile(ctrl.LoggerInto(c.t.Context(), logr.Discard()), ctrl.Request{NamespacedName: c.key})
	if err != nil {
		c.t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{}
	c.get(c.key, cluster)
	if reason := conditions.GetReason(cluster, "RancherImported"); reason != "" && !slices.Contains(c.read, reason) {
		c.read = append(c.read, reason)
	}
	return result.RequeueAfter
}

func (c *counted) get(key client.ObjectKey, object client.Object) {
	c.t.Helper()
	if err := c.store.Get(c.t.Context(), key, object); err != nil {
		c.t.Fatal(err)
	}
}

func (c *counted) create(object client.Object) {
	c.t.Helper()
	if err := c.store.Create(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
}

// wait has time pass until the import wants to look again, as it said, and lets it look.
func (c *counted) wait(after time.Duration) {
	c.t.Helper()
	if after <= 0 || after > 3*time.Second {
		c.t.Errorf("after what is not told yet it looks again after %s, want at most 3 s", after)
	}
	c.clock.SetTime(c.clock.Now().Add(after))
	c.reconcile()
}

// prepare is Rancher, which prepares the registration of a new Rancher cluster.
func (c *counted) prepare(kind string) *managementv3.Cluster {
	c.t.Helper()
	found := &managementv3.ClusterList{}
	if kind == "v1" {
		v1 := &provisioningv1.Cluster{}
		c.get(client.ObjectKey{Namespace: c.key.Namespace, Name: c.key.Name + "-capi"}, v1)
		v3 := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-abcdefgh", UID: "v3", Labels: v1.Labels, Annotations: maps.Clone(v1.Annotations)}}
		v3.Annotations["objectset.rio.cattle.io/owner-namespace"], v3.Annotations["objectset.rio.cattle.io/owner-name"] = v1.Namespace, v1.Name
		v3.CreationTimestamp = v1.CreationTimestamp
		v3.Spec.DisplayName, v3.Spec.Description = v1.Name, v1.Annotations["field.cattle.io/description"]
		c.create(v3)
		v1.Status.ClusterName = v3.Name
		if err := c.store.Update(c.t.Context(), v1); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.store.List(c.t.Context(), found); err != nil || len(found.Items) != 1 {
		c.t.Fatalf("there are %d v3 Clusters, %v", len(found.Items), err)
	}
	name := found.Items[0].Name
	token := rancher.NewRegistrationToken()
	token.SetNamespace(name)
	token.SetName(rancher.DefaultTokenName)
	token.Object["status"] = map[string]any{"manifestUrl": simURL + "/v3/import/t0ken_" + name + ".yaml"}
	c.create(token)
	return &found.Items[0]
}

// Each request counts thousands of times. A step of an import that has gone by before anybody could read of it is not
// written; one that lasts is. Where Rancher keeps the token in a Secret, that is read besides: TestRequests counts it.
func TestRequestsOfAnImport(t *testing.T) { //nolint:gocognit // one story
	for _, kind := range []string{"v3", "v1"} {
		record := map[string]string{"v3": "clusters.management.cattle.io", "v1": "clusters.provisioning.cattle.io"}[kind]
		for name, tc := range map[string]struct {
			slow bool
			want int // condition writes
			read []string
		}{
			"Quick": {false, 1, []string{"Imported"}},
			"Slow":  {true, 3, []string{"WaitingForRancher", "WaitingForAgent", "Imported"}},
		} {
			t.Run(kind+name, func(t *testing.T) {
				c := newCounted(t, kind)
				look := func() {
					t.Helper()
					if after := c.reconcile(); tc.slow {
						c.wait(after)
					}
				}
				look()
				behind := c.prepare(kind)
				c.reconcile()
				c.control.AwaitJob()
				look()
				behind.Status.Conditions = []managementv3.ClusterCondition{{Type: "Connected", Status: corev1.ConditionTrue}}
				if err := c.store.Update(t.Context(), behind); err != nil {
					t.Fatal(err)
				}
				if after := c.reconcile(); after != 0 {
					t.Errorf("an import that has ended is looked at again after %s", after)
				}
				want := map[string]int{
					"get clusters.provisioning.cattle.io": 1, "patch clusters.cluster.x-k8s.io": 1, "create " + record: 1, "get secrets": 1,
					"patch clusters.cluster.x-k8s.io/status": tc.want, "create events.events.k8s.io": 1,
				}
				if diff := cmp.Diff(want, c.requests); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				total := 0
				for _, n := range c.requests {
					total += n
				}
				if most := 5 + tc.want; total > most {
					t.Errorf("%d requests, want at most %d", total, most)
				}
				if diff := cmp.Diff(tc.read, c.read); diff != "" {
					t.Errorf("users read (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A slow Rancher has thousands of agents looked at that wait for it: a look costs a read of the kubeconfig, and of the
// token where that is in a Secret. What else an agent may connect with is read when it has another token than it was
// installed with.
func TestRequestsOfALook(t *testing.T) {
	for name, tc := range map[string]struct {
		token string
		want  map[string]int
	}{
		"Ours":    {"t0ken", map[string]int{"get secrets": 1}},
		"Another": {"of-before", map[string]int{"get secrets": 1, "list clusterregistrationtokenlists.management.cattle.io": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounted(t, "v3")
			c.reconcile()
			behind := c.prepare("v3")
			c.reconcile()
			c.control.AwaitJob()
			c.wait(c.reconcile())
			c.requests = map[string]int{}
			c.agent = installed{exists: true, credentials: true, server: simURL, token: tc.token, cluster: behind.Name}
			c.clock.SetTime(c.clock.Now().Add(time.Minute))
			c.reconcile()
			c.control.AwaitJob()
			if diff := cmp.Diff(tc.want, c.requests); diff != "" {
				t.Errorf("requests of a look (-want +got):\n%s", diff)
			}
		})
	}
}

// blank is a workload cluster, without an agent unless it says otherwise.
type blank struct {
	agent installed
	*counted
}

func (b blank) Inspect(ctx context.Context) (agent.State, error) {
	return inspected(ctx, b.agent), nil
}
func (blank) NoCleanup(context.Context) error { return nil }
func (b blank) Install(_ context.Context, objects []*unstructured.Unstructured, _ bool) (bool, error) {
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
	}
	b.applied = append(b.applied, kinds)
	if b.then != nil {
		b.then()
	}
	return false, nil
}
func (blank) Diagnose(context.Context, agent.State, bool) agent.Cause { return agent.Unknown }
func (blank) UID(context.Context) (types.UID, error)                  { return "workload", nil }

// shown are the display names of the v3 Clusters that there are.
type shown struct{ store client.Reader }

func (shown) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not used")
}

func (s shown) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	found := &managementv3.ClusterList{}
	err := s.store.List(ctx, found)
	names, _ := list.(*rancher.NamedClusterList)
	for i := range found.Items {
		named := rancher.NamedCluster{ObjectMeta: found.Items[i].ObjectMeta}
		named.Spec.DisplayName = found.Items[i].Spec.DisplayName
		names.Items = append(names.Items, named)
	}
	return err
}

func (shown) IndexField(context.Context, client.Object, string, client.IndexerFunc) error { return nil }
