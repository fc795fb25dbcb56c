package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/agent"
)

// webhookDown is a Rancher whose webhook is a program or a Pod of its own.
type webhookDown interface {
	DownWebhook(ctx context.Context) error
	UpWebhook(ctx context.Context) error
}

// What goes wrong with Rancher and in workload clusters. The suite of the import has all of it in all states; this is
// to be the same with a real Rancher.
var _ = Describe("Trouble", Label("long", "rancher"), Ordered, func() {
	var (
		f       *fixture
		cluster *clusterv1.Cluster
		record  client.Object
	)
	connected := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Eventually(func() bool { _, ok := f.Rancher.Connected(managementName(ctx, f, record)); return ok }).Should(BeTrue())
	}
	BeforeAll(func(ctx context.Context) {
		// Its namespaces end.
		f = fixtureOn(ctx, startStage(ctx, stage.Options{Name: "trouble", Audit: true}), env.Options{Name: "trouble-workload", Audit: true, ControllerManager: true})
		f.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true")
		namespace := f.Namespace(ctx, nil)
		cluster = f.Cluster(ctx, namespace, "prod", func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{"archelon.io/agent-env": "HTTPS_PROXY: http://proxy:3128\nNO_PROXY: 0.0.0.0/1,128.0.0.0/1"}
			c.Annotations["cluster-api.cattle.io/cluster-description"] = "our production"
		})
	})

	It("imports and connects a cluster", func(ctx context.Context) {
		f.Choose(ctx, cluster, "true")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		record = expectV3Record(ctx, f, cluster)
		connected(ctx)
	})

	It("connects the cluster again when all of its agent is lost", func(ctx context.Context) {
		lost := &corev1.Namespace{}
		Expect(f.Lane.Client.Get(ctx, client.ObjectKey{Name: importing.AgentNamespace}, lost)).To(Succeed())
		Expect(f.Lane.Client.Delete(ctx, lost)).To(Succeed())
		Eventually(func(g Gomega) {
			found := &corev1.Namespace{}
			g.Expect(f.Lane.Client.Get(ctx, client.ObjectKeyFromObject(lost), found)).To(Succeed())
			g.Expect(found.UID).NotTo(Equal(lost.UID))
			g.Expect(f.Agent(ctx)).NotTo(BeNil())
		}).Should(Succeed())
		v3, _ := record.(*managementv3.Cluster)
		Eventually(func() map[string]string { return importing.Current(ctx, f.Client, v3).Annotations }).
			Should(HaveKeyWithValue(importing.ForceDeployKey, "false"))
		connected(ctx)
		Expect(f.V3Records(ctx, cluster)).To(HaveLen(1))
	})

	It("stays when Rancher rotates the token, and when Rancher starts again", func(ctx context.Context) {
		uid := record.GetUID()
		Expect(f.Rancher.RotateToken(ctx, record.GetName())).To(Succeed())
		f.Rancher.Down()
		Expect(f.Rancher.Up(ctx)).To(Succeed())
		connected(ctx)
		Expect(expectV3Record(ctx, f, cluster).GetUID()).To(Equal(uid))
	})

	It("connects the cluster again when Rancher has another CA", func(ctx context.Context) {
		Expect(f.Rancher.RotateCA(ctx)).To(Succeed())
		f.Rancher.Down()
		Expect(f.Rancher.Up(ctx)).To(Succeed())
		trusted := agent.Checksum(string(f.Rancher.CACert()))
		Eventually(func(g Gomega) {
			deployment := f.Agent(ctx)
			g.Expect(deployment).NotTo(BeNil())
			g.Expect(deployment.Spec.Template.Spec.Containers[0].Env).To(ContainElement(corev1.EnvVar{Name: "CATTLE_CA_CHECKSUM", Value: trusted}))
		}).Should(Succeed())
		connected(ctx)
		Expect(f.V3Records(ctx, cluster)).To(HaveLen(1))
	})

	It("begins again while Rancher is down, and ends when it is back", func(ctx context.Context) {
		f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/NotSelected"))
		f.ExpectNothingLeft(ctx, cluster)
		f.Rancher.Down()
		f.Choose(ctx, cluster, "true")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForRancher"))
		Expect(f.Rancher.Up(ctx)).To(Succeed())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		record = expectV3Record(ctx, f, cluster)
		connected(ctx)
	})

	Describe("with the gate flipped", Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			Expect(f.Manager.Stop()).To(Succeed())
			f.startManager(ctx, importing.Loud)
		})

		It("keeps its Rancher cluster", func(ctx context.Context) {
			uid := record.GetUID()
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
				o.SetLabels(labels.Merge(o.GetLabels(), labels.Set{"team": "blue"}))
			})
			Eventually(func() map[string]string { return importing.Current(ctx, f.Client, record).GetLabels() }).Should(HaveKeyWithValue("team", "blue"))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.V1Records(ctx, cluster)).To(BeEmpty())
			Expect(f.V3Records(ctx, cluster)).To(HaveExactElements(HaveField("UID", uid)))
			connected(ctx)
		})

		It("ends with its CAPI cluster, whatever Rancher's webhook does", func(ctx context.Context) {
			if rancher, ok := f.Rancher.(webhookDown); ok {
				Expect(rancher.DownWebhook(ctx)).To(Succeed())
				Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
				Eventually(f.Reason(ctx, cluster)).Should(Or(ContainSubstring("not found"), HavePrefix("False/")))
				Expect(rancher.UpWebhook(ctx)).To(Succeed())
			} else {
				Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			}
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			Eventually(func() bool {
				return apierrors.IsNotFound(f.Client.Get(ctx, client.ObjectKeyFromObject(record), record))
			}).Should(BeTrue())
			f.ExpectNothingLeft(ctx, cluster)
			f.ExpectLawful()
		})
	})
})
