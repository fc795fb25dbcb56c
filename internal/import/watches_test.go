package importer

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/scheme"
)

// cached is a client that reads from a cache. What it writes comes nowhere.
func cached(t *testing.T, from testCache, funcs interceptor.Funcs) client.Client {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	funcs.Get = func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		return from.Get(ctx, key, object, options...)
	}
	funcs.List = func(ctx context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		return from.List(ctx, list, options...)
	}
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(known).Build(), funcs)
}

// crowd returns n CAPI clusters, each in a namespace of its own with a v3 record, and a v1 record that names the first
// one. Every cluster but the first is imported.
func crowd(n int) []client.Object {
	var objects []client.Object
	for i := range n {
		name, namespace, uid := fmt.Sprintf("cluster-%d", i), fmt.Sprintf("tenant-%d", i), fmt.Sprintf("uid-%d", i)
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
		status := metav1.ConditionTrue
		if i == 0 {
			status = metav1.ConditionFalse
		}
		cluster.Status.Conditions = []metav1.Condition{{Type: "RancherImported", Status: status, Reason: "Any"}}
		labels := map[string]string{
			"cluster-api.cattle.io/capi-cluster-owner": name, "cluster-api.cattle.io/capi-cluster-owner-ns": namespace, "archelon.io/capi-cluster-uid": uid,
		}
		objects = append(objects, cluster,
			&managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%d", i), Labels: labels}},
			// It lost the label of its namespace: records are found by the name alone as well.
			&provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other-capi", Labels: map[string]string{
				"cluster-api.cattle.io/capi-cluster-owner": "cluster-0",
			}}})
	}
	return objects
}

// eventHandlers are what the watches call, each with an event that wakes the first cluster of a crowd.
func eventHandlers(r *Reconciler) map[string]func(context.Context) []reconcile.Request {
	v3 := func(change func(*managementv3.Cluster)) *managementv3.Cluster {
		cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-0"}}
		change(cluster)
		return cluster
	}
	labelled := func(labels map[string]string) func(*managementv3.Cluster) {
		return func(c *managementv3.Cluster) { c.Labels = labels }
	}
	v1 := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-0", Name: "cluster-0-capi", OwnerReferences: []metav1.OwnerReference{{UID: "uid-0"}}}}
	token := rancher.NewRegistrationToken()
	token.SetNamespace("c-0")
	token.SetName("default-token")
	handlers := map[string]func(context.Context, client.Object) []reconcile.Request{}
	objects := map[string]client.Object{}
	add := func(name string, handler func(context.Context, client.Object) []reconcile.Request, object client.Object) {
		handlers[name], objects[name] = handler, object
	}
	add("Record", r.clustersOfRecord(v3Strategy{}), v3(labelled(map[string]string{
		"cluster-api.cattle.io/capi-cluster-owner": "cluster-0", "cluster-api.cattle.io/capi-cluster-owner-ns": "tenant-0",
	})))
	add("RecordWithUID", r.clustersOfRecord(v3Strategy{}), v3(labelled(map[string]string{"archelon.io/capi-cluster-uid": "uid-0"})))
	add("RecordWithName", r.clustersOfRecord(v3Strategy{}), v3(labelled(map[string]string{"cluster-api.cattle.io/capi-cluster-owner": "cluster-0"})))
	add("RecordWithOwner", r.clustersOfRecord(v1Strategy{}), v1)
	add("Token", r.clusterOfBackingNamespace, token)
	add("Setting", r.clustersNotImported, &managementv3.Setting{})
	add("Namespace", r.clustersIn, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "tenant-0"}})
	add("Kubeconfig", r.clusterOfKubeconfig, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-0", Name: "cluster-0-kubeconfig"}})
	calls := map[string]func(context.Context) []reconcile.Request{}
	for name, handler := range handlers {
		calls[name] = func(ctx context.Context) []reconcile.Request { return handler(ctx, objects[name]) }
	}
	return calls
}

// An event costs what it wakes, however many clusters there are. What it costs is counted in what it allocates: that
// does not depend on the machine. A list of all clusters is one large allocation, hence the bytes.
func TestEventsCostTheSameWithAnyNumberOfClusters(t *testing.T) {
	costs := map[string][]cost{}
	for _, n := range []int{100, 10_000} {
		r := &Reconciler{Client: cached(t, newTestCache(t, crowd(n)...), interceptor.Funcs{}), Rules: Rules{Active: v3Strategy{}, Others: []Strategy{v1Strategy{}}}}
		for name, handle := range eventHandlers(r) {
			got := handle(t.Context())
			if len(got) != 1 || got[0].Name != "cluster-0" {
				t.Errorf("%s with %d clusters: woke %v, want tenant-0/cluster-0", name, n, got)
			}
			costs[name] = append(costs[name], costOf(func() { handle(t.Context()) }))
		}
		// And the first read of every reconcile.
		first := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-0", Name: "cluster-0", UID: "uid-0"}}
		records, _, err := r.recordsOf(t.Context(), first)
		if err != nil || len(records) != 2 {
			t.Errorf("with %d clusters: %d records, %v, want two", n, len(records), err)
		}
		costs["recordsOf"] = append(costs["recordsOf"], costOf(func() { _, _, _ = r.recordsOf(t.Context(), first) }))
	}
	for name, cost := range costs {
		few, many := cost[0], cost[1]
		t.Logf("%s: %.0f allocations of %.0f bytes with 100 clusters, %.0f of %.0f with 10,000", name, few.allocations, few.bytes, many.allocations, many.bytes)
		if many.allocations >= 2*few.allocations+1 || many.bytes >= 2*few.bytes+1024 {
			t.Errorf("%s: the cost grows with the number of clusters", name)
		}
	}
}

// cost is what one call allocates.
type cost struct{ allocations, bytes float64 }

func costOf(call func()) cost {
	const calls = 50
	found := cost{allocations: testing.AllocsPerRun(calls, call)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		call()
	}
	runtime.ReadMemStats(&after)
	found.bytes = float64(after.TotalAlloc-before.TotalAlloc) / calls
	return found
}

// A cluster that was left to another instance is looked at when that is gone, and by nothing else: no timer does it.
func TestClustersOfAnInstanceThatIsGone(t *testing.T) {
	left, ours, others := testCluster(), testCluster(), testCluster()
	ours.Name, others.Name = "ours", "others"
	left.Annotations = map[string]string{"archelon.io/instance": "system/gone"}
	others.Annotations = map[string]string{"archelon.io/instance": "system/there"}
	b := newBench(t, instance.Claim{WatchFilter: "blue"}, left, ours, others)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	var gone func(string)
	stopped := make(chan struct{})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	if err := b.instanceGone(func(wake func(string)) func() { gone = wake; return func() { close(stopped) } }).Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	if queue.Len() != 0 {
		t.Fatal("nobody is gone yet")
	}
	gone("system/gone")
	if got, _ := queue.Get(); got.NamespacedName != client.ObjectKeyFromObject(left) || queue.Len() > 0 {
		t.Errorf("%s is looked at, and %d more, want %s alone, which was left to the instance", got, queue.Len(), client.ObjectKeyFromObject(left))
	}
	end()
	<-stopped // Nothing is left of an import that ends.
}
