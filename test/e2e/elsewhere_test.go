package e2e

import (
	"context"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// CAPI and Archelon run in another cluster than Rancher. test/integration/edge shows how that fails; this shows that it
// works with a real Rancher.
var _ = Describe("Elsewhere", Label("long", "rancher", "programs"), Ordered, func() {
	var (
		rancher, site *fixture
		cluster       *clusterv1.Cluster
		record        *managementv3.Cluster
	)
	imported := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(site.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		records := rancher.V3Records(ctx, cluster)
		Expect(records).To(HaveLen(1))
		record = &records[0]
		Expect(record.Labels).To(HaveKeyWithValue("archelon.io/management-cluster", site.uid(ctx)))
	}
	BeforeAll(func(ctx context.Context) {
		rancher = newFixture(ctx, stage.Options{Name: "rancher", Audit: true})
		site = siteOf(ctx, rancher)
		startBesideCAPI(ctx, rancher, site)
	})

	It("imports and connects a cluster", func(ctx context.Context) {
		cluster = site.Cluster(ctx, site.Namespace(ctx, nil), "prod", importing.Selected)
		imported(ctx)
	})

	It("connects it again when its agent is deleted", func(ctx context.Context) {
		before := rancher.Rancher.Reapplies(record.Name)
		Expect(rancher.Lane.Client.Delete(ctx, rancher.Agent(ctx))).To(Succeed())
		Eventually(func() int { return rancher.Rancher.Reapplies(record.Name) }).Should(BeNumerically(">", before))
		Eventually(func() map[string]string { return importing.Current(ctx, rancher.Client, record).Annotations }).
			Should(HaveKeyWithValue(importing.ForceDeployKey, "false"))
		imported(ctx)
	})

	It("un-imports it when it is deleted in Rancher, and imports it again", func(ctx context.Context) {
		Expect(rancher.Client.Delete(ctx, record)).To(Succeed())
		Eventually(site.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
		rancher.ExpectNothingLeft(ctx, cluster)
		site.Patch(ctx, importing.Current(ctx, site.Client, cluster), func(o client.Object) {
			annotations := o.GetAnnotations()
			delete(annotations, importing.ImportedKey)
			o.SetAnnotations(annotations)
		})
		imported(ctx)
	})

	It("deletes the Rancher cluster with its CAPI Cluster", func(ctx context.Context) {
		Expect(site.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(site.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		rancher.ExpectNothingLeft(ctx, cluster)
	})
})

// siteOf starts a management cluster without Rancher, whose clusters use the workload cluster of the one with Rancher.
func siteOf(ctx context.Context, rancher *fixture) *fixture {
	GinkgoHelper()
	crds, err := env.CAPICRDs()
	Expect(err).NotTo(HaveOccurred())
	plane, err := env.Start(ctx, env.Options{Name: "site", CRDs: crds, ControllerManager: true, Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	site := &fixture{&importing.Fixture{
		Stage: &stage.Stage{Management: plane, Client: importing.AdminClient(plane), Rancher: rancher.Rancher, Values: importing.Values()},
		Lane:  rancher.Lane,
	}}
	Expect(site.Client.Create(ctx, importing.NamespaceOf(stage.SystemNamespace))).To(Succeed())
	return site
}

// startBesideCAPI gives the management cluster access to Rancher's cluster, and runs the manager in it.
func startBesideCAPI(ctx context.Context, rancher, site *fixture) {
	GinkgoHelper()
	uid := site.uid(ctx)
	rancher.applyChart(ctx, "edge", map[string]any{"role": "rancher-side", "managementCluster": map[string]any{"uid": uid}})
	account, err := rancher.Management.ServiceAccountConfig(ctx, stage.SystemNamespace, "edge-"+uid)
	Expect(err).NotTo(HaveOccurred())
	raw, err := rancher.Management.KubeconfigFor(account)
	Expect(err).NotTo(HaveOccurred())
	Expect(site.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: stage.SystemNamespace, Name: "rancher-kubeconfig"}, Data: map[string][]byte{"value": raw},
	})).To(Succeed())
	site.Values = map[string]any{"rancher": map[string]any{"kubeconfigSecret": "rancher-kubeconfig"}}
	site.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true,remote-rancher=true")
}

// uid returns what tells management clusters apart.
func (f *fixture) uid(ctx context.Context) string {
	GinkgoHelper()
	return string(importing.Current(ctx, f.Client, importing.NamespaceOf("kube-system")).UID)
}

// applyChart creates what the chart renders of values, but for Pods.
func (f *fixture) applyChart(ctx context.Context, name string, values map[string]any) {
	GinkgoHelper()
	h, err := helm.New(nil)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = h.Close() }()
	objects, err := h.Template(ctx, helm.Release{
		Name: name, Namespace: stage.SystemNamespace, Chart: filepath.Join(stage.Root(), "charts", "archelon"), Values: values,
		Args: []string{"--kube-version=" + stage.KubeVersion},
	})
	Expect(err).NotTo(HaveOccurred())
	for i := range objects {
		if object := &objects[i]; !slices.Contains([]string{"Deployment", "Job", "PodDisruptionBudget", "Service"}, object.GetKind()) {
			apply := client.ApplyConfigurationFromUnstructured(object)
			Expect(f.Client.Apply(ctx, apply, client.FieldOwner("helm"), client.ForceOwnership)).To(Succeed(), object.GetName())
		}
	}
}
