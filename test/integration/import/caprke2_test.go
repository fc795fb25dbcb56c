package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: Rancher 2.15 takes an etcd snapshot of a cluster of CAPRKE2. It knows the v3 Cluster, and finds the CAPI
// Cluster by its two labels in its own API server.
var _ = Describe("What Rancher's operations find a CAPI Cluster by", func() {
	for _, strategy := range importing.Strategies() {
		It("is on the v3 Cluster as "+strategy, func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "caprke2-" + strategy})
			f.run(ctx, importing.Gate(strategy))
			cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			records := f.Look(ctx).Records(strategy, cluster)
			Expect(records).To(HaveLen(1))
			name := records[0].GetName()
			if strategy == "v1" {
				record := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name}}
				name = importing.Current(ctx, f.Client, record).Status.ClusterName
			}

			known := importing.Current(ctx, f.Client, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
			found := &clusterv1.Cluster{}
			key := client.ObjectKey{
				Namespace: known.Labels["cluster-api.cattle.io/capi-cluster-owner-ns"],
				Name:      known.Labels["cluster-api.cattle.io/capi-cluster-owner"],
			}
			Expect(f.Client.Get(ctx, key, found)).To(Succeed())
			Expect(found.UID).To(Equal(cluster.UID))
			// With "true" Rancher would look for a cluster that it has provisioned itself.
			Expect(known.Annotations["provisioning.cattle.io/administrated"]).NotTo(Equal("true"))
		})
	}
})
