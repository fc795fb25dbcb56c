package import_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: an import waits for a control plane, and says in the words of Cluster API why.
var _ = Describe("A control plane", Ordered, func() {
	var (
		f         *fixture
		namespace string
	)
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "control-plane"})
		namespace = f.Namespace(ctx, nil)
	})
	create := func(ctx context.Context, name string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
		GinkgoHelper()
		kubeconfig, err := f.Lane.Plane.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Client.Create(ctx, builder.KubeconfigSecret(namespace, name, kubeconfig))).To(Succeed())
		cluster := builder.Cluster(namespace, name)
		for _, c := range change {
			c(cluster)
		}
		Expect(f.Client.Create(ctx, cluster)).To(Succeed())
		return cluster
	}
	withControlPlane := func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "plane",
		}
	}
	reports := func(ctx context.Context, cluster *clusterv1.Cluster, kind string, status metav1.ConditionStatus, reason, message string) {
		GinkgoHelper()
		f.Status(ctx, cluster, func(c *clusterv1.Cluster) {
			builder.SetCondition(c, kind, status, reason)
			for i := range c.Status.Conditions {
				if c.Status.Conditions[i].Type == kind {
					c.Status.Conditions[i].Message = message
				}
			}
		})
	}
	message := func(ctx context.Context, cluster *clusterv1.Cluster) func() string {
		return func() string {
			return conditions.GetMessage(importing.Current(ctx, f.Client, cluster), importing.Condition)
		}
	}
	end := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		f.expectNoAgent(ctx)
		Expect(f.Manager.Stop()).To(Succeed())
	}
	const available, initialized = clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterControlPlaneInitializedCondition

	for _, early := range []string{"Never", "OnRequest"} {
		It("serves when Cluster API has seen it serve, with early imports "+early, func(ctx context.Context) {
			f.run(ctx, "--early-import="+early)
			name := "plane-" + strings.ToLower(early)
			cluster := create(ctx, name, importing.Selected, withControlPlane)
			if early == "OnRequest" {
				f.Patch(ctx, cluster, func(o client.Object) { importing.SetAnnotation(o, earlyKey, "true") })
			}
			Eventually(message(ctx, cluster)).Should(ContainSubstring("Check KubeadmControlPlane " + namespace + "/plane"))
			reports(ctx, cluster, available, metav1.ConditionFalse, "NotAvailable", "* Control plane\n* not yet\tinitialized\x1b")
			Eventually(message(ctx, cluster)).Should(ContainSubstring(`NotAvailable: "* Control plane * not yet initialized`))
			Expect(message(ctx, cluster)()).NotTo(ContainSubstring("\x1b"))

			By("having Cluster API say another thing")
			reports(ctx, cluster, available, metav1.ConditionUnknown, "InternalError", "Please check controller logs for errors")
			Eventually(message(ctx, cluster)).Should(ContainSubstring(`InternalError: "Please check controller logs for errors"`))
			Expect(f.Reason(ctx, cluster)()).To(Equal("False/WaitingForControlPlane"))

			By("being initialized, with one of three machines away")
			reports(ctx, cluster, available, metav1.ConditionFalse, "NotAvailable", "1 of 3 machines are there")
			Consistently(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
			f.Status(ctx, cluster, func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(true) })
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			end(ctx, cluster)
		})
	}

	It("is there when machines of its own have it, and when the infrastructure does", func(ctx context.Context) {
		f.run(ctx)
		machines, hosted := create(ctx, "machines", importing.Selected), create(ctx, "hosted", importing.Selected)
		for _, cluster := range []*clusterv1.Cluster{machines, hosted} {
			// Cluster API has no control plane object to look at.
			reports(ctx, cluster, available, metav1.ConditionUnknown, "InternalError", "Please check controller logs for errors")
			reports(ctx, cluster, initialized, metav1.ConditionFalse, "NotInitialized",
				"Waiting for the first control plane machine to have status.nodeRef set")
			Eventually(message(ctx, cluster)).Should(ContainSubstring("Waiting for the first control plane machine to have status.nodeRef set"))
			Expect(f.Reason(ctx, cluster)()).To(Equal("False/WaitingForControlPlane"))
		}
		reports(ctx, machines, initialized, metav1.ConditionTrue, "Initialized", "")
		Eventually(f.Reason(ctx, machines)).Should(Equal("True/Imported"))
		Expect(f.Client.Delete(ctx, machines)).To(Succeed())
		f.expectNoAgent(ctx) // One workload cluster serves all of them.
		reports(ctx, hosted, clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionTrue, "ProbeSucceeded", "")
		Eventually(f.Reason(ctx, hosted)).Should(Equal("True/Imported"))
		end(ctx, hosted)
	})

	It("names what shows the cluster in Rancher before", func(ctx context.Context) {
		for early, want := range map[string]string{
			"Never": `ask your administrator to set the Helm value import.early to "OnRequest"`,
			"OnRequest": fmt.Sprintf(`To show this Cluster in Rancher before its control plane is available, set annotation %s to "true"`,
				earlyKey),
		} {
			f.run(ctx, "--early-import="+early)
			cluster := create(ctx, "waits-"+strings.ToLower(early), importing.Selected)
			Eventually(message(ctx, cluster)).Should(ContainSubstring(want))
			Expect(f.Manager.Stop()).To(Succeed())
		}
	})
})
