package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

const deliveryKey = "archelon.io/agent-delivery"

// Scenario: a workload cluster cannot be reached from the management cluster, so its owner applies Rancher's manifest
// there by other means.
var _ = Describe("Manual delivery of the agent", func() {
	for _, strategy := range importing.Strategies() {
		describeDelivery(strategy)
	}
})

func describeDelivery(strategy string) {
	var (
		f         *fixture
		namespace string
	)
	said := func(ctx context.Context, cluster *clusterv1.Cluster) func() string {
		return f.ReasonIn(ctx, cluster, "AgentManifest")
	}
	// unreachable creates a CAPI Cluster that is available and whose workload cluster Archelon knows no way to.
	unreachable := func(ctx context.Context, name string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
		GinkgoHelper()
		cluster := builder.Cluster(namespace, name)
		importing.Selected(cluster)
		for _, c := range change {
			c(cluster)
		}
		Expect(f.Client.Create(ctx, cluster)).To(Succeed())
		f.Status(ctx, cluster, builder.ControlPlaneUp)
		return cluster
	}
	allowed := func(ctx context.Context) {
		GinkgoHelper()
		f.run(ctx, importing.Gate(strategy)+",agent-manifest=true", "--early-import=OnRequest")
	}

	Describe("as "+strategy, nightlyUnless(strategy == "v3"), Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stage.Options{Name: "delivery-" + strategy})
			namespace = f.Namespace(ctx, nil)
		})

		It("is refused where an administrator has not allowed it", func(ctx context.Context) {
			f.run(ctx, importing.Gate(strategy))
			cluster := unreachable(ctx, "refused", importing.ManualDelivery)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/InvalidSetting"))
			Expect(conditions.GetMessage(importing.Current(ctx, f.Client, cluster), importing.Condition)).To(SatisfyAll(
				ContainSubstring(deliveryKey), ContainSubstring("ask your administrator"), ContainSubstring("features.agent-manifest.enabled")))
			Expect(f.Manifest(ctx, cluster)()).To(BeEmpty())
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		})

		It("connects a cluster that Archelon cannot reach, with the manifest of a Secret that stays current", func(ctx context.Context) {
			allowed(ctx)
			cluster := unreachable(ctx, "prod", importing.ManualDelivery)
			Eventually(said(ctx, cluster)).Should(Equal("True/ManifestReady"))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForAgent"))
			Expect(conditions.GetMessage(importing.Current(ctx, f.Client, cluster), importing.Condition)).To(ContainSubstring(namespace + "/prod-rancher-agent"))
			secret := importing.Current(ctx, f.Client, importing.ManifestSecret(cluster))
			Expect(secret.Type).To(BeEquivalentTo("addons.cluster.x-k8s.io/resource-set"))
			Expect(secret.Labels).To(HaveKeyWithValue("cluster.x-k8s.io/cluster-name", "prod"))
			Expect(metav1.IsControlledBy(secret, cluster)).To(BeTrue())
			Expect(f.workloadRequests()).To(BeEmpty())

			By("the Secret follows the settings, and comes back when it was deleted")
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
				importing.SetAnnotation(o, "archelon.io/agent-env", `{"HTTPS_PROXY": "http://proxy:3128"}`)
			})
			Eventually(f.Manifest(ctx, cluster)).Should(ContainSubstring("http://proxy:3128"))
			image := &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: "agent-image"}}
			f.Patch(ctx, importing.Current(ctx, f.Client, image), func(o client.Object) {
				if setting, ok := o.(*managementv3.Setting); ok {
					setting.Value = "rancher/rancher-agent:v2.99"
				}
			})
			Eventually(f.Manifest(ctx, cluster)).Should(ContainSubstring("rancher/rancher-agent:v2.99"))
			Expect(f.Client.Delete(ctx, importing.ManifestSecret(cluster))).To(Succeed())
			Eventually(f.Manifest(ctx, cluster)).ShouldNot(BeEmpty())

			By("what is applied connects, and the import knows it")
			f.Lane.Apply(ctx, f.Manifest(ctx, cluster)())
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.workloadRequests()).To(BeEmpty())
			version := importing.Current(ctx, f.Client, importing.ManifestSecret(cluster)).ResourceVersion
			Consistently(func() string {
				return importing.Current(ctx, f.Client, importing.ManifestSecret(cluster)).ResourceVersion
			}).Should(Equal(version))
			f.ExpectNoSecrets()

			By("what was deleted and is applied again connects, too")
			Expect(f.Lane.Client.Delete(ctx, f.Agent(ctx))).To(Succeed())
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AgentDisconnected"))
			f.Lane.Apply(ctx, f.Manifest(ctx, cluster)())
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.workloadRequests()).To(BeEmpty())

			By("it ends with the import")
			f.Choose(ctx, cluster, "false")
			Eventually(f.Manifest(ctx, cluster)).Should(BeEmpty())
			Eventually(said(ctx, cluster)).Should(Equal("none"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.expectNoAgent(ctx)
		})

		It("has the manifest ready for the creation of the control plane, with an early import", func(ctx context.Context) {
			allowed(ctx)
			cluster := builder.Cluster(namespace, "unborn")
			importing.Selected(cluster)
			importing.SetAnnotation(cluster, earlyKey, "true")
			importing.ManualDelivery(cluster)
			Expect(f.Client.Create(ctx, cluster)).To(Succeed())
			Eventually(f.Manifest(ctx, cluster)).Should(ContainSubstring("cattle-cluster-agent"))
			secret := importing.Current(ctx, f.Client, importing.ManifestSecret(cluster))
			Expect(metav1.IsControlledBy(secret, cluster)).To(BeTrue())

			By("the manifest goes with the cluster, although a ClusterResourceSet has become an owner of the Secret, too")
			set := importing.Current(ctx, f.Client, importing.NamespaceOf(namespace)) // whatever outlives the cluster
			f.Patch(ctx, secret, func(o client.Object) {
				Expect(controllerutil.SetOwnerReference(set, o, f.Client.Scheme())).To(Succeed())
			})
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			Eventually(f.Manifest(ctx, cluster)).Should(BeEmpty())
		})

		It("leaves a Secret of others alone, and says so", func(ctx context.Context) {
			allowed(ctx)
			cluster := builder.Cluster(namespace, "taken")
			foreign := importing.ManifestSecret(cluster)
			foreign.Data = map[string][]byte{"manifest.yaml": []byte("mine")}
			Expect(f.Client.Create(ctx, foreign)).To(Succeed())
			cluster = unreachable(ctx, "taken", importing.ManualDelivery)
			Eventually(said(ctx, cluster)).Should(Equal("False/ManifestSecretTaken"))

			By("also if it looks like one of ours")
			f.Patch(ctx, importing.Current(ctx, f.Client, foreign), func(o client.Object) {
				o.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "taken"})
				importing.SetAnnotation(o, "archelon.io/manifest-input", "forged")
			})
			Consistently(said(ctx, cluster)).Should(Equal("False/ManifestSecretTaken"))
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, deliveryKey, "") })
			Eventually(said(ctx, cluster)).Should(Equal("none"))
			Expect(f.Manifest(ctx, cluster)()).To(Equal("mine"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			Expect(f.Manifest(ctx, cluster)()).To(Equal("mine"))
		})

		It("gives way to Archelon when the annotation is removed", func(ctx context.Context) {
			allowed(ctx)
			f.expectNoAgent(ctx)
			cluster := f.Cluster(ctx, namespace, "changed", importing.Selected, importing.ManualDelivery)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForAgent"))
			Eventually(f.Manifest(ctx, cluster)).ShouldNot(BeEmpty())
			Consistently(f.workloadWrites).Should(BeEmpty())
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, deliveryKey, "") })
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Eventually(f.Manifest(ctx, cluster)).Should(BeEmpty())
		})
	})
}
