package importer

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/shard"
)

// clusters is a reader that holds CAPI clusters.
type clusters []clusterv1.Cluster

func (c clusters) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	panic("only a list is expected")
}

func (c clusters) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*clusterv1.ClusterList).Items = c //nolint:forcetypeassert // it panics in a test
	return nil
}

// gauges returns what is gathered, by name and labels.
func gauges(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			key := family.GetName()
			for _, label := range metric.GetLabel() {
				key += " " + label.GetName() + "=" + label.GetValue()
			}
			counts[key] = metric.GetGauge().GetValue()
		}
	}
	return counts
}

func TestInventory(t *testing.T) {
	cluster := func(namespace, filter, status, reason string) clusterv1.Cluster {
		found := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"cluster.x-k8s.io/watch-filter": filter}}}
		if status != "" {
			found.Status.Conditions = []metav1.Condition{{Type: "RancherImported", Status: metav1.ConditionStatus(status), Reason: reason}}
		}
		return found
	}
	scope, err := shard.New(nil, []string{"other"})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	counting := counting{inventory: metrics.present, view: view{claim: instance.Claim{Scope: scope, WatchFilter: "mine"}, reader: clusters{
		cluster("a", "mine", "True", "Imported"), cluster("b", "mine", "True", "Imported"), cluster("a", "mine", "False", "InvalidSetting"),
		cluster("a", "mine", "", ""), cluster("a", "another", "True", "Imported"), cluster("other", "mine", "True", "Imported"),
		cluster("b", "mine", "False", "InvalidSetting"), cluster("b", "mine", "False", "InvalidSetting"),
	}}}
	if got := gauges(t, registry); len(got) > 0 {
		t.Errorf("a replica that does not lead counts %v", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = counting.Start(ctx) }()
	for len(metrics.present.all()) == 0 && ctx.Err() == nil {
		runtime.Gosched()
	}
	want := map[string]float64{
		"archelon_import_clusters cluster_namespace= reason=Imported status=True":         2,
		"archelon_import_clusters cluster_namespace=a reason=InvalidSetting status=False": 1,
		"archelon_import_clusters cluster_namespace=b reason=InvalidSetting status=False": 2,
	}
	if diff := cmp.Diff(want, gauges(t, registry)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	stop()
	<-ended
	if got := gauges(t, registry); len(got) > 0 {
		t.Errorf("a replica that has stopped to lead counts %v", got)
	}
}

// What hits many namespaces is no cause of a tenant, and series for each would be without bound.
func TestInventoryNamesFewNamespaces(t *testing.T) {
	counted := func(namespaces int) map[string]float64 {
		var all clusters
		for n := range namespaces {
			found := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("tenant-%d", n)}}
			found.Status.Conditions = []metav1.Condition{{Type: "RancherImported", Status: metav1.ConditionFalse, Reason: "AgentDisconnected"}}
			all = append(all, found, found)
		}
		other := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-0"}}
		other.Status.Conditions = []metav1.Condition{{Type: "RancherImported", Status: metav1.ConditionFalse, Reason: "InvalidSetting"}}
		registry := prometheus.NewRegistry()
		metrics, err := NewMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		defer metrics.present.add(&view{reader: append(all, other)})()
		return gauges(t, registry)
	}
	if got := counted(100); len(got) != 101 || got["archelon_import_clusters cluster_namespace=tenant-7 reason=AgentDisconnected status=False"] != 2 {
		t.Errorf("100 namespaces are %d series, want 101: %v", len(got), got)
	}
	want := map[string]float64{
		"archelon_import_clusters cluster_namespace= reason=AgentDisconnected status=False":      202,
		"archelon_import_clusters cluster_namespace=tenant-0 reason=InvalidSetting status=False": 1,
	}
	if diff := cmp.Diff(want, counted(101)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
