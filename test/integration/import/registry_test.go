package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: the nodes of one cluster reach no registry but its own.
var _ = Describe("A registry for one cluster", func() {
	const registryKey, pullSecretsKey = "archelon.io/private-registry", "archelon.io/private-registry-pull-secrets"
	const settings = "--agent-setting=private-registry,registry-pull-secrets"
	asking := func(registry string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{registryKey: registry, pullSecretsKey: "pull"}
		}
	}

	It("has Rancher's agent come from there, and goes when it is taken back", func(ctx context.Context) {
		f := newFixture(ctx, stage.Options{Name: "registry-v3"})
		f.run(ctx, importing.Gate("v3"), settings)
		cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected, asking("registry.example.com:5000/mirror"))
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		config := func() *managementv3.ImportedConfig {
			records := f.Look(ctx).Records("v3", cluster)
			Expect(records).To(HaveLen(1))
			return importing.Current(ctx, f.Client, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: records[0].GetName()}}).Spec.ImportedConfig
		}
		image := func() string {
			agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: importing.AgentNamespace, Name: importing.AgentDeployment}}
			return importing.Current(ctx, f.Lane.Client, agent).Spec.Template.Spec.Containers[0].Image
		}
		Expect(config()).To(And(HaveField("PrivateRegistryURL", "registry.example.com:5000/mirror"), HaveField("PrivateRegistryPullSecrets", HaveExactElements("pull"))))
		Expect(image()).To(HavePrefix("registry.example.com:5000/mirror/rancher/"))

		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
			annotations := o.GetAnnotations()
			delete(annotations, registryKey)
			delete(annotations, pullSecretsKey)
			o.SetAnnotations(annotations)
		})
		Eventually(config).Should(Or(BeNil(), And(HaveField("PrivateRegistryURL", BeEmpty()), HaveField("PrivateRegistryPullSecrets", BeEmpty()))))
		Eventually(image).ShouldNot(ContainSubstring("registry.example.com"))
	})

	It("is refused by name for a v1 Rancher cluster, which has none", func(ctx context.Context) {
		f := newFixture(ctx, stage.Options{Name: "registry-v1"})
		f.run(ctx, importing.Gate("v1"), settings)
		cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected, asking("registry.example.com"))
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/InvalidSetting"))
		Expect(f.Look(ctx).Records("v1", cluster)).To(BeEmpty())
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { o.SetLabels(nil) })
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	})
})
