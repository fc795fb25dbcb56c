package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/capi"
	"github.com/archelon-io/archelon/test/importing"
)

const (
	many = 100
	// manyPatience is for all of them together, on two processors.
	manyPatience = 30 * time.Minute
	manyPolling  = 2 * time.Second
	manyHands    = 20
)

// manyClusters has many Clusters come and go at once.
func manyClusters(world func() *capiWorld) {
	It("imports each exactly once, and lets all of them go", func(ctx context.Context) {
		w := world()
		before := w.creations()
		namespace := w.Namespace(ctx, map[string]string{importing.ImportLabel: "true"})
		var clusters []*provisioned
		for i := range many {
			clusters = append(clusters, w.prepare(ctx, namespace, fmt.Sprintf("m%02d", i)))
		}
		began := time.Now()
		report := func(what string) { AddReportEntry(what, time.Since(began).Round(time.Second).String()) }
		failed := make([]error, many)
		workqueue.ParallelizeUntil(ctx, manyHands, many, func(i int) { failed[i] = w.create(ctx, clusters[i]) })
		Expect(errors.Join(failed...)).To(Succeed())
		report("created")
		for _, p := range clusters {
			w.connectWithin(ctx, p, manyPatience)
		}
		report("all have an API server")
		Eventually(w.count(ctx, namespace, clusterv1.ClusterControlPlaneAvailableCondition)).
			WithTimeout(manyPatience).WithPolling(manyPolling).Should(Equal(many))
		report("all control planes available")
		Eventually(w.count(ctx, namespace, importing.Condition)).WithTimeout(manyPatience).WithPolling(manyPolling).Should(Equal(many))
		report("all imported")
		Expect(w.creations()).To(Equal(before + many))
		for _, p := range clusters {
			Expect(w.V3Records(ctx, p.cluster)).To(HaveLen(1))
		}

		began = time.Now()
		workqueue.ParallelizeUntil(ctx, manyHands, many, func(i int) { failed[i] = w.Client.Delete(ctx, clusters[i].cluster) })
		Expect(errors.Join(failed...)).To(Succeed())
		report("told to go")
		Eventually(func() (int, error) {
			list := &clusterv1.ClusterList{}
			err := w.Client.List(ctx, list, client.InNamespace(namespace))
			return len(list.Items), err
		}).WithTimeout(manyPatience).WithPolling(manyPolling).Should(BeZero())
		report("all deleted")
		for _, p := range clusters {
			w.Rancher.RemoveWorkload(p.key.String())
		}
		Eventually(w.NothingOfRancher(ctx)).WithTimeout(manyPatience).WithPolling(manyPolling).Should(BeEmpty())
		report("nothing left in Rancher")
	})
}

// create makes a plain Cluster of one machine, as a client does that does not apply.
func (w *capiWorld) create(ctx context.Context, p *provisioned) error {
	manifest, err := capi.Plain(capi.Cluster{Name: p.key.Name, Port: p.gateway.Port(), ControlPlanes: 1})
	if err != nil {
		return err
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue
		}
		object.SetNamespace(p.key.Namespace)
		if err := w.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s of %s: %w", object.GetKind(), p.key, err)
		}
	}
}

// count returns how many Clusters have a condition that is True. An API server that is this
// busy may let a request fail.
func (w *capiWorld) count(ctx context.Context, namespace, kind string) func() (int, error) {
	return func() (int, error) {
		list := &clusterv1.ClusterList{}
		err := w.Client.List(ctx, list, client.InNamespace(namespace))
		count := 0
		for i := range list.Items {
			if conditions.IsTrue(&list.Items[i], kind) {
				count++
			}
		}
		return count, err
	}
}
