package importer

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/workload"
)

// What tests need that run the Reconciler with the real strategies, which import this package.

// NewWorld returns a client of objects in memory, with what the Reconciler looks for in its cache.
func NewWorld(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).WithStatusSubresource(&clusterv1.Cluster{}).
		WithIndex(&managementv3.Cluster{}, ownerIndex, ownerKeys).WithIndex(&provisioningv1.Cluster{}, ownerIndex, ownerKeys).
		WithIndex(&corev1.Namespace{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()
}

// NewProcess returns a Reconciler that remembers nothing, and tells each step at once. The client stands for both
// the cache and the API server.
func NewProcess(t *testing.T, c client.Client, active, other Strategy) *Reconciler {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	workloads, err := workload.NewClients(c, workload.Options{})
	must(err)
	metrics, err := NewMetrics(prometheus.NewRegistry())
	must(err)
	settings, err := rancher.NewSettings(c)
	must(err)
	tokens, err := rancher.NewTokens(c, c)
	must(err)
	nobody := &names{}
	displayNames, err := rancher.NewDisplayNames(t.Context(), nobody, nobody)
	must(err)
	r := &Reconciler{
		Client: c, APIReader: c, Recorder: events.NewFakeRecorder(10_000), Settings: settings, Tokens: tokens,
		Rules:     Rules{Active: active, Others: []Strategy{other}, Self: instance.ID{Name: "archelon"}},
		Workloads: workloads, Metrics: metrics, Clock: clock.RealClock{}, tokenSecrets: c, assigned: c, DisplayNames: displayNames,
		memory: newMemory(), jobs: newJobs(1, clock.RealClock{}),
	}
	r.steps.atOnce = true
	return r
}
