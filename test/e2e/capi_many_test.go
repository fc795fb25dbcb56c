package e2e

import (
	"bytes"
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/capi"
)

const (
	many = 100
	// manyPatience is for all of them together, on two processors.
	manyPatience = 30 * time.Minute
	manyPolling  = 2 * time.Second
)

// manyClusters has many Clusters come and go at once.
func manyClusters(world func() *capiWorld) {
	It("imports each exactly once, and lets all of them go", func(ctx context.Context) {
		w := world()
		before := w.creations()
		namespace := w.namespace(ctx, map[string]string{importLabel: "true"})
		var (
			clusters []*provisioned
			all      bytes.Buffer
		)
		for i := range many {
			p := w.prepare(ctx, namespace, fmt.Sprintf("m%02d", i))
			manifest, err := capi.Plain(capi.Cluster{Name: p.key.Name, Port: p.gateway.Port(), ControlPlanes: 1})
			Expect(err).NotTo(HaveOccurred())
			all.Write(manifest)
			clusters = append(clusters, p)
		}
		began := time.Now()
		report := func(what string) { AddReportEntry(what, time.Since(began).Round(time.Second).String()) }
		w.apply(ctx, namespace, all.Bytes(), nil)
		report("applied")
		for _, p := range clusters {
			w.connectWithin(ctx, p, manyPatience)
		}
		report("all have a CA")
		Eventually(w.count(ctx, namespace, clusterv1.ClusterControlPlaneAvailableCondition)).
			WithTimeout(manyPatience).WithPolling(manyPolling).Should(Equal(many))
		report("all control planes available")
		Eventually(w.count(ctx, namespace, condition)).WithTimeout(manyPatience).WithPolling(manyPolling).Should(Equal(many))
		report("all imported")
		Expect(w.creations()).To(Equal(before + many))
		for _, p := range clusters {
			Expect(w.v3Records(ctx, p.cluster)).To(HaveLen(1))
		}

		began = time.Now()
		w.kubectl(ctx, namespace, nil, "delete", "clusters", "--all", "--wait=false")
		Eventually(func() int {
			list := &clusterv1.ClusterList{}
			Expect(w.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			return len(list.Items)
		}).WithTimeout(manyPatience).WithPolling(manyPolling).Should(BeZero())
		report("all deleted")
		for _, p := range clusters {
			w.Rancher.RemoveWorkload(p.key.String())
		}
		Eventually(w.nothingOfRancher(ctx)).WithTimeout(manyPatience).WithPolling(manyPolling).Should(BeEmpty())
		report("nothing left in Rancher")
	})
}

// count returns how many Clusters have a condition that is True.
func (w *capiWorld) count(ctx context.Context, namespace, kind string) func() int {
	return func() int {
		list := &clusterv1.ClusterList{}
		Expect(w.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		count := 0
		for i := range list.Items {
			if conditions.IsTrue(&list.Items[i], kind) {
				count++
			}
		}
		return count
	}
}
