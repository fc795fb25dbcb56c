package importer

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/workload"
)

const (
	finalizer = "archelon.io/rancher-import"
	recordKey = "archelon.io/rancher-cluster"
)

// v3Strategy is what the reconciler needs of a strategy to find and end records.
type v3Strategy struct{ Strategy }

func (v3Strategy) Kind() string                               { return "v3" }
func (v3Strategy) Nature() Nature                             { return Nature{Itself: true, TakesNamespace: true} }
func (v3Strategy) NewObject() client.Object                   { return &managementv3.Cluster{} }
func (v3Strategy) NewList() client.ObjectList                 { return &managementv3.ClusterList{} }
func (v3Strategy) ManagementName(record client.Object) string { return record.GetName() }
func (v3Strategy) Derived(client.Object) bool                 { return false }
func (v3Strategy) Key(_ *clusterv1.Cluster, name string) client.ObjectKey {
	return client.ObjectKey{Name: name}
}

// v1Strategy is the same of the strategy whose records are beside their CAPI clusters.
type v1Strategy struct{ Strategy }

func (v1Strategy) Kind() string               { return "v1" }
func (v1Strategy) Nature() Nature             { return Nature{TakesCluster: true} }
func (v1Strategy) NewObject() client.Object   { return &provisioningv1.Cluster{} }
func (v1Strategy) NewList() client.ObjectList { return &provisioningv1.ClusterList{} }
func (v1Strategy) Derived(client.Object) bool { return false }
func (v1Strategy) ManagementName(r client.Object) string {
	return r.(*provisioningv1.Cluster).Status.ClusterName //nolint:forcetypeassert // it panics in a test
}
func (v1Strategy) Key(cluster *clusterv1.Cluster, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: cluster.Namespace, Name: name}
}

// bench is a reconciler on objects that stand for both the cache and the API server.
type bench struct {
	*Reconciler
	clock *testingclock.FakeClock
}

func newBench(t *testing.T, claim instance.Claim, objects ...client.Object) *bench {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	known, err := scheme.New()
	must(err)
	c := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).WithStatusSubresource(&clusterv1.Cluster{}).
		WithIndex(&managementv3.Cluster{}, ownerIndex, ownerKeys).WithIndex(&provisioningv1.Cluster{}, ownerIndex, ownerKeys).Build()
	b := &bench{clock: testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	workloads, err := workload.NewClients(c, workload.Options{})
	must(err)
	metrics, err := NewMetrics(prometheus.NewRegistry())
	must(err)
	b.Reconciler = &Reconciler{
		Rules:  Rules{Active: v3Strategy{}, Self: instance.ID{Name: "archelon"}, Claim: claim},
		Client: c, APIReader: c, Recorder: events.NewFakeRecorder(100), Workloads: workloads, Metrics: metrics, Clock: b.clock,
		memory: newMemory(), jobs: newJobs(1, b.clock), assigned: c, tokenSecrets: c,
	}
	b.open = b.openSite
	return b
}

// seen is an observation of a cluster and of records.
func seen(cluster *clusterv1.Cluster, records ...record) *Observation {
	o := newObservation(client.ObjectKeyFromObject(cluster))
	o.cluster, o.records, o.intent = cluster, records, intentImport
	return o
}

// withManagement adds the v3 Cluster behind the record to what is seen.
func (o *Observation) withManagement(cluster *managementv3.Cluster) *Observation {
	o.managements[cluster.Name] = &managed{object: cluster}
	return o
}

// obey asks and acts as a part of the rules says, and returns how that ends. The cluster is followed under the last
// record, and the v3 Cluster that is behind it.
func (r *Reconciler) obey(ctx context.Context, o *Observation, part func(*deciding) Decision) Decision {
	return r.run(ctx, o, func(o Observation, now time.Time) Decision {
		d := &deciding{Rules: r.Rules, Observation: &o, now: now}
		if len(o.records) > 0 {
			d.record = &o.records[len(o.records)-1]
		}
		for _, behind := range o.managements {
			d.management = viewOf(behind.object)
		}
		return d.by([]rule{{"part", part}})
	})
}

// reconcile reconciles the cluster of the tests.
func (b *bench) reconcile(t *testing.T) ctrl.Result {
	t.Helper()
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(testCluster())})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// there reports whether an object exists, and reads it.
func (b *bench) there(t *testing.T, object client.Object) bool {
	t.Helper()
	err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

func held(c *clusterv1.Cluster) {
	c.Finalizers = []string{finalizer}
	annotated(recordKey, "v3/c-abcde")(c)
}

func v3Record() *managementv3.Cluster {
	return &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", UID: "record-1", Finalizers: []string{finalizer}, Labels: map[string]string{
		"cluster-api.cattle.io/owned": "", "cluster-api.cattle.io/capi-cluster-owner": "prod", "cluster-api.cattle.io/capi-cluster-owner-ns": "tenant",
		"archelon.io/capi-cluster-uid": "uid-1",
	}}}
}

// A cluster that was asked to go a moment before it got our finalizer vanishes with it. Its end and its
// record come by two watches.
func TestTheRecordOfALostClusterMayComeLater(t *testing.T) {
	b := newBench(t, instance.Claim{})
	b.holdings.note(testCluster(held))
	if got := b.reconcile(t); got.RequeueAfter != madeTrust {
		t.Errorf("the cluster is gone and its record unknown: it is looked at again after %s, want %s", got.RequeueAfter, madeTrust)
	}
	b.clock.Step(madeTrust / 2)
	if err := b.Client.Create(t.Context(), v3Record()); err != nil {
		t.Fatal(err)
	}
	if got := b.reconcile(t); got.RequeueAfter != madeTrust/2 {
		t.Errorf("looked at again after %s, want %s", got.RequeueAfter, madeTrust/2)
	}
	if b.there(t, v3Record()) {
		t.Error("the record is left behind")
	}
	b.clock.Step(madeTrust / 2)
	if got := b.reconcile(t); got.RequeueAfter != 0 || len(b.holdings.last) != 0 {
		t.Errorf("after %s, %d clusters are remembered, and looked at again after %s", madeTrust, len(b.holdings.last), got.RequeueAfter)
	}
	if err := b.Client.Create(t.Context(), v3Record()); err != nil {
		t.Fatal(err)
	}
	if b.reconcile(t); !b.there(t, v3Record()) {
		t.Error("a record that is restored ahead of its cluster is deleted")
	}
}

func TestARecordIsReleasedAlthoughNobodyClaimsItsCluster(t *testing.T) {
	deleted := func(name string) *managementv3.Cluster {
		record := v3Record()
		record.DeletionTimestamp = new(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)))
		record.Name = name
		return record
	}
	imported := func(c *clusterv1.Cluster) {
		conditions.Set(c, metav1.Condition{Type: "RancherImported", Status: metav1.ConditionTrue, Reason: "Imported"})
	}
	paused := func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }
	type end struct {
		record, held     bool
		imported, reason string
	}
	for name, tc := range map[string]struct {
		reason  string
		cluster *clusterv1.Cluster
		record  *managementv3.Cluster
		want    end
	}{
		"Deleted": {
			reason:  "deleted in Rancher",
			cluster: testCluster(held, imported), record: deleted("c-abcde"), want: end{imported: "true", reason: "RemovedInRancher"},
		},
		"Kept": {
			reason:  "nothing happened",
			cluster: testCluster(held, imported), record: v3Record(), want: end{record: true, held: true, reason: "Imported"},
		},
		"Paused": {
			reason:  "a paused cluster is left alone",
			cluster: testCluster(held, imported, paused), record: deleted("c-abcde"), want: end{record: true, held: true, reason: "Imported"},
		},
		"NotedOnly": {
			reason:  "the process died before it released the record",
			cluster: testCluster(imported, annotated("imported", "true")), record: deleted("c-abcde"), want: end{imported: "true", reason: "RemovedInRancher"},
		},
		"ReleasedOnly": {
			reason:  "the process died before it said so",
			cluster: testCluster(imported, annotated("imported", "true")), want: end{imported: "true", reason: "RemovedInRancher"},
		},
		"Foreign": {
			reason:  "it was never imported",
			cluster: testCluster(annotated("imported", "true")), want: end{imported: "true"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{tc.cluster}
			if tc.record != nil {
				objects = append(objects, tc.record)
			}
			b := newBench(t, instance.Claim{WatchFilter: "a"}, objects...)
			b.reconcile(t)
			cluster := testCluster()
			got := end{record: b.there(t, v3Record())}
			b.there(t, cluster)
			got.held, got.imported = slices.Contains(cluster.Finalizers, finalizer), cluster.Annotations["imported"]
			if c := conditions.Get(cluster, "RancherImported"); c != nil {
				got.reason = c.Reason
			}
			if got != tc.want {
				t.Errorf("%s: got %+v, want %+v", tc.reason, got, tc.want)
			}
		})
	}
}

// A record that was deleted in Rancher and has lost all its labels is known by what is written on its cluster alone.
// That goes when the deletion is noted, so the record is released in the same run.
func TestARecordWithoutLabelsIsReleased(t *testing.T) {
	record := v3Record()
	record.Labels, record.DeletionTimestamp = nil, new(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)))
	cluster := testCluster(held, func(c *clusterv1.Cluster) {
		c.Labels = map[string]string{"cluster-api.cattle.io/rancher-auto-import": "true"}
		c.Status.Initialization.ControlPlaneInitialized = new(true)
		c.Annotations[recordKey] = "v3/c-abcde"
	})
	b := newBench(t, instance.Claim{}, cluster, record)
	b.Active = decideV3{}
	b.named(t)
	live := b.Client
	b.Client = interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // of newBench
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, ok := object.(*managementv3.Cluster); ok {
				key.Name = "not-in-the-cache"
			}
			return c.Get(ctx, key, object, options...)
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return nil
		},
	})
	b.APIReader = interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // of newBench
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			// The namespace that Rancher has created for the record.
			found := list.(*metav1.PartialObjectMetadataList)
			found.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde"}}}
			return nil
		},
	})
	b.reconcile(t)
	if b.Client = live; b.there(t, v3Record()) {
		t.Error("the record is held although its cluster was told of the deletion")
	}
	if b.there(t, cluster); cluster.Annotations["imported"] != "true" || len(cluster.Finalizers) > 0 {
		t.Errorf("the cluster was not told: %v %v", cluster.Annotations, cluster.Finalizers)
	}
}
