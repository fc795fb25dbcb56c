package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

const agentDeploymentKey = "archelon.io/agent-deployment"

// Scenario: a tenant says where and with what Rancher's agent runs, as far as the administrator allows it.
var _ = Describe("The Deployment of Rancher's agent", func() {
	for _, strategy := range importing.Strategies() {
		describeAgentDeployment(strategy)
	}
})

func describeAgentDeployment(strategy string) {
	var (
		f         *fixture
		namespace string
	)
	ask := func(text string) func(client.Object) {
		return func(o client.Object) {
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[agentDeploymentKey] = text
			o.SetAnnotations(annotations)
		}
	}
	// management is the v3 Cluster that Rancher's agent is deployed by.
	management := func(ctx context.Context, cluster *clusterv1.Cluster) *managementv3.Cluster {
		GinkgoHelper()
		records := f.Look(ctx).Records(strategy, cluster)
		Expect(records).To(HaveLen(1))
		name := records[0].GetName()
		if strategy == "v1" {
			name = importing.Current(ctx, f.Client, &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name}}).Status.ClusterName
		}
		return importing.Current(ctx, f.Client, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	customization := func(ctx context.Context, cluster *clusterv1.Cluster) func() *managementv3.AgentDeploymentCustomization {
		return func() *managementv3.AgentDeploymentCustomization {
			return management(ctx, cluster).Spec.ClusterAgentDeploymentCustomization
		}
	}

	Describe("as "+strategy, nightlyUnless(strategy == "v3"), Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stage.Options{Name: "agentdeployment-" + strategy})
			namespace = f.Namespace(ctx, nil)
			f.run(ctx, importing.Gate(strategy), "--agent-setting=tolerations,resources")
		})

		It("is as a tenant asks for, from the beginning and later, beside what is set in Rancher", func(ctx context.Context) {
			cluster := f.Cluster(ctx, namespace, "prod", importing.Selected, func(c *clusterv1.Cluster) {
				ask("appendTolerations: [{key: edge, operator: Exists}]\noverrideResourceRequirements: {limits: {cpu: 1, memory: 1Gi}}")(c)
			})
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			got := customization(ctx, cluster)()
			Expect(got.AppendTolerations).To(HaveExactElements(corev1.Toleration{Key: "edge", Operator: corev1.TolerationOpExists}))
			Expect(got.OverrideResourceRequirements.Limits.Cpu().String()).To(Equal("1"))

			By("what somebody sets in Rancher stays")
			f.Patch(ctx, management(ctx, cluster), func(o client.Object) {
				if c, ok := o.(*managementv3.Cluster); ok {
					c.Spec.ClusterAgentDeploymentCustomization.SchedulingCustomization = &managementv3.AgentSchedulingCustomization{
						PodDisruptionBudget: &managementv3.PodDisruptionBudgetSpec{MinAvailable: "1"},
					}
				}
			})
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), ask("overrideResourceRequirements: {limits: {memory: 2Gi}}"))
			Eventually(customization(ctx, cluster)).Should(And(
				HaveField("AppendTolerations", BeEmpty()),
				HaveField("OverrideResourceRequirements.Limits", And(HaveLen(1), HaveKey(corev1.ResourceMemory))),
				HaveField("SchedulingCustomization.PodDisruptionBudget.MinAvailable", "1"),
			))

			By("what is taken back goes")
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
				annotations := o.GetAnnotations()
				delete(annotations, agentDeploymentKey)
				o.SetAnnotations(annotations)
			})
			Eventually(customization(ctx, cluster)).Should(And(
				HaveField("OverrideResourceRequirements", BeNil()),
				HaveField("SchedulingCustomization.PodDisruptionBudget.MinAvailable", "1"),
			))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		})

		It("is another one for the Fleet agent", func(ctx context.Context) {
			const fleetKey = "archelon.io/fleet-agent-deployment"
			cluster := f.Cluster(ctx, namespace, "fleet", importing.Selected, func(c *clusterv1.Cluster) {
				c.Annotations = map[string]string{fleetKey: "appendTolerations: [{key: edge, operator: Exists}]"}
			})
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			fleetAgent := func() *managementv3.AgentDeploymentCustomization {
				return management(ctx, cluster).Spec.FleetAgentDeploymentCustomization
			}
			Expect(fleetAgent().AppendTolerations).To(HaveExactElements(corev1.Toleration{Key: "edge", Operator: corev1.TolerationOpExists}))
			Expect(customization(ctx, cluster)()).To(Or(BeNil(), HaveField("AppendTolerations", BeEmpty())))

			By("it follows, and goes when it is taken back")
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
				annotations := o.GetAnnotations()
				annotations[fleetKey] = "overrideResourceRequirements: {requests: {memory: 64Mi}}"
				o.SetAnnotations(annotations)
			})
			Eventually(fleetAgent).Should(And(
				HaveField("AppendTolerations", BeEmpty()), HaveField("OverrideResourceRequirements.Requests", HaveKey(corev1.ResourceMemory)),
			))
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
				annotations := o.GetAnnotations()
				delete(annotations, fleetKey)
				o.SetAnnotations(annotations)
			})
			Eventually(fleetAgent).Should(Or(BeNil(), HaveField("OverrideResourceRequirements", BeNil())))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
			f.expectNoAgent(ctx)
		})

		DescribeTable("is refused by name", func(ctx context.Context, name, text string) {
			cluster := f.Cluster(ctx, namespace, name, importing.Selected, func(c *clusterv1.Cluster) { ask(text)(c) })
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/InvalidSetting"))
			Expect(f.Look(ctx).Records(strategy, cluster)).To(BeEmpty())
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { o.SetLabels(nil) })
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		},
			Entry("when the administrator does not allow it", "unasked", "schedulingCustomization: {priorityClass: {value: 1}}"),
			Entry("when it would get into the manifest", "hostile", `appendTolerations: [{key: "a\n- kind: Pod", operator: Exists}]`),
			Entry("when it would take for ever to read", "bomb", `overrideResourceRequirements: {limits: {cpu: "1e999999999"}}`),
		)
	})
}
