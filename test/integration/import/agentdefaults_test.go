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

// Scenario: an administrator gives the agents of all clusters a proxy and tolerations, changes them, and removes them.
var _ = Describe("Settings of Rancher's agent for all clusters", func() {
	for _, strategy := range importing.Strategies() {
		describeAgentDefaults(strategy)
	}
})

func describeAgentDefaults(strategy string) {
	Describe("as "+strategy, nightlyUnless(strategy == "v3"), Ordered, func() {
		var (
			f       *fixture
			cluster *clusterv1.Cluster
		)
		// restart has the manager run with other settings, as an upgrade of the release does.
		restart := func(ctx context.Context, args ...string) {
			GinkgoHelper()
			if f.Manager != nil {
				Expect(f.Manager.Stop()).To(Succeed())
			}
			f.run(ctx, append([]string{importing.Gate(strategy), "--agent-setting=tolerations"}, args...)...)
		}
		// spec is that of the v3 Cluster, which Rancher deploys its agent by.
		spec := func(ctx context.Context) managementv3.ClusterSpec {
			GinkgoHelper()
			records := f.Look(ctx).Records(strategy, cluster)
			Expect(records).To(HaveLen(1))
			name := records[0].GetName()
			if strategy == "v1" {
				record := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name}}
				name = importing.Current(ctx, f.Client, record).Status.ClusterName
			}
			return importing.Current(ctx, f.Client, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}).Spec
		}
		env := func(ctx context.Context) func() map[string]string {
			return func() map[string]string {
				found := map[string]string{}
				for _, variable := range spec(ctx).AgentEnvVars {
					found[variable.Name] = variable.Value
				}
				return found
			}
		}
		tolerations := func(ctx context.Context) func() []corev1.Toleration {
			return func() []corev1.Toleration {
				if customization := spec(ctx).ClusterAgentDeploymentCustomization; customization != nil {
					return customization.AppendTolerations
				}
				return nil
			}
		}
		tolerated := func(key string) []corev1.Toleration {
			return []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}
		}

		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stage.Options{Name: "agentdefaults-" + strategy})
			restart(ctx)
			cluster = f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(env(ctx)()).To(BeEmpty())
		})

		It("reach a cluster that is imported already, and a Cluster's own win", func(ctx context.Context) {
			restart(ctx, "--agent-default-env=HTTPS_PROXY=http://proxy:3128", "--agent-default-env=NO_PROXY=10.0.0.0/8,.svc",
				`--agent-default-tolerations=[{"key":"edge","operator":"Exists"}]`)
			Eventually(env(ctx)).Should(Equal(map[string]string{"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.0/8,.svc"}))
			Eventually(tolerations(ctx)).Should(Equal(tolerated("edge")))

			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
				annotations := o.GetAnnotations()
				annotations["archelon.io/agent-env"] = "NO_PROXY: .own"
				annotations["archelon.io/agent-deployment"] = "appendTolerations: [{key: own, operator: Exists}]"
				o.SetAnnotations(annotations)
			})
			Eventually(env(ctx)).Should(Equal(map[string]string{"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".own"}))
			Eventually(tolerations(ctx)).Should(Equal(tolerated("own")))
		})

		It("go when the administrator takes them back, and those of a Cluster stay", func(ctx context.Context) {
			restart(ctx)
			Eventually(env(ctx)).Should(Equal(map[string]string{"NO_PROXY": ".own"}))
			Eventually(tolerations(ctx)).Should(Equal(tolerated("own")))
			restart(ctx, "--agent-default-env=A=b", `--agent-default-tolerations=[{"key":"edge","operator":"Exists"}]`)
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
				annotations := o.GetAnnotations()
				delete(annotations, "archelon.io/agent-env")
				delete(annotations, "archelon.io/agent-deployment")
				o.SetAnnotations(annotations)
			})
			Eventually(env(ctx)).Should(Equal(map[string]string{"A": "b"}))
			Eventually(tolerations(ctx)).Should(Equal(tolerated("edge")))
			restart(ctx)
			Eventually(env(ctx)).Should(BeEmpty())
			Eventually(tolerations(ctx)).Should(BeEmpty())
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		})
	})
}
