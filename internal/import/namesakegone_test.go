package importer

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/scheme"
)

// Rancher deletes the CAPI Cluster that has the name of a v1 Rancher cluster with it. So a v1 Rancher cluster is
// deleted only when that other CAPI Cluster has gone. The CAPI Cluster that waits for this is woken also when its
// Rancher cluster has lost its labels, and the cache does not show it: annotation archelon.io/rancher-cluster still
// names it.
func TestANamesakeThatHasGoneWakesWhoWaits(t *testing.T) {
	waits, other := testCluster(held), testCluster(held)
	waits.Annotations["archelon.io/rancher-cluster"] = "v1/prod-capi"
	other.Name, other.UID = "other", "uid-other"
	other.Annotations["archelon.io/rancher-cluster"] = "v1/other-capi"
	b := newBench(t, instance.Claim{})
	b.Rules = Rules{Active: v3Strategy{}, Others: []Strategy{v1Strategy{}}}
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(known).WithObjects(waits, other)
	for name, index := range clusterIndexes(b.Rules) {
		builder = builder.WithIndex(&clusterv1.Cluster{}, name, index)
	}
	b.Client = builder.Build()
	gone := testCluster()
	gone.Name = "prod-capi"
	want := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(waits)}
	if got := b.clusterOfNamesake(t.Context(), gone); len(got) != 1 || got[0] != want {
		t.Errorf("it wakes %v, want %v", got, want)
	}
}
