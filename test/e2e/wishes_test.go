package e2e

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

const classKey = "clusterclass-name.fleet.addons.cluster.x-k8s.io"

// withFeatures is a Rancher that has features of its own to turn on.
type withFeatures interface {
	SetFeature(ctx context.Context, name string, on bool) error
}

// What users of Rancher Turtles ask for. The suite of the import has all cases; here is what Rancher, its webhook
// and its agent have a part in.
var _ = Describe("Wishes", Label("long", "rancher"), func() {
	for _, strategy := range importing.Strategies() {
		Describe("as "+strategy, Ordered, func() {
			var (
				f       *fixture
				cluster *clusterv1.Cluster
				record  client.Object
			)
			annotate := func(ctx context.Context, key, value string) {
				GinkgoHelper()
				f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, key, value) })
			}
			members := func(ctx context.Context) func() string {
				return f.ReasonIn(ctx, cluster, "RancherMembers")
			}
			bindings := func(ctx context.Context) func() []string {
				return func() []string {
					list, roles := &managementv3.ClusterRoleTemplateBindingList{}, []string{}
					Expect(f.Client.List(ctx, list, client.MatchingLabels{importing.UIDLabel: string(cluster.UID)})).To(Succeed())
					for i := range list.Items {
						roles = append(roles, list.Items[i].RoleTemplateName)
					}
					slices.Sort(roles)
					return roles
				}
			}
			BeforeAll(func(ctx context.Context) {
				f = newFixture(ctx, stage.Options{Name: "wishes-" + strategy, Audit: true})
				read := []rbacv1.PolicyRule{{APIGroups: []string{"management.cattle.io"}, Resources: []string{"clusters"}, Verbs: []string{"get"}}}
				everything := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
				for _, template := range []*managementv3.RoleTemplate{
					{ObjectMeta: metav1.ObjectMeta{Name: "tenant-dev"}, External: true, ExternalRules: read},
					{ObjectMeta: metav1.ObjectMeta{Name: "tenant-view"}, External: true, ExternalRules: read},
					{ObjectMeta: metav1.ObjectMeta{Name: "tenant-owner"}, Rules: everything},
				} {
					template.DisplayName, template.Context = template.Name, "cluster"
					Expect(f.Client.Create(ctx, template)).To(Succeed())
					DeferCleanup(func(ctx context.Context) {
						Expect(f.Client.Delete(ctx, template)).To(Succeed())
						Eventually(f.K(ctx).Get(template)).Should(Satisfy(apierrors.IsNotFound), "Rancher holds it for a while")
					})
				}
				gates := "--feature-gates=rancher-cluster-members=true,agent-manifest=true,managementv3-cluster=false"
				if strategy == "v3" {
					gates = "--feature-gates=rancher-cluster-members=true,agent-manifest=true,managementv3-cluster=true"
				}
				f.startManager(ctx, importing.Loud, gates, "--import-selector=env=prod", "--cluster-class-labels", "--early-import=OnRequest",
					"--agent-setting=tolerations,resources,priority-class", "--member-role=tenant-dev,tenant-view,tenant-owner", "--member-principal=okta_group://")
			})

			It("shows a cluster in Rancher that nobody has labelled, before it has a control plane", func(ctx context.Context) {
				cluster = builder.Cluster(f.Namespace(ctx, nil), "prod")
				cluster.Labels = map[string]string{"env": "prod"}
				cluster.Annotations = map[string]string{
					"archelon.io/early-import":     "true",
					"archelon.io/members":          `[{"role": "tenant-dev", "group": "okta_group://a"}, {"role": "tenant-view", "group": "okta_group://b"}]`,
					"archelon.io/agent-deployment": "appendTolerations: [{key: edge, operator: Exists}]\noverrideResourceRequirements: {limits: {memory: 2Gi}}",
				}
				cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "quick"}, Version: "v1.36.0"}
				Expect(f.Client.Create(ctx, cluster)).To(Succeed())
				Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
				var records []client.Object
				Eventually(func() int {
					records = nil
					for _, r := range f.V3Records(ctx, cluster) {
						records = append(records, &r)
					}
					for _, r := range f.V1Records(ctx, cluster) {
						records = append(records, &r)
					}
					return len(records)
				}).Should(Equal(1))
				record = records[0]
				Expect(record.GetLabels()).To(HaveKeyWithValue(classKey, "quick"))
				Eventually(members(ctx)).Should(Equal("True/MembersBound"))
				Expect(bindings(ctx)()).To(Equal([]string{"tenant-dev", "tenant-view"}))
			})

			It("connects it when it has one, by an agent as the tenant wants it", func(ctx context.Context) {
				kubeconfig, err := f.Lane.Plane.Kubeconfig()
				Expect(err).NotTo(HaveOccurred())
				Expect(f.Client.Create(ctx, builder.KubeconfigSecret(cluster.Namespace, cluster.Name, kubeconfig))).To(Succeed())
				f.Status(ctx, cluster, builder.ControlPlaneUp)
				Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
				Eventually(func(g Gomega) {
					agent := f.Agent(ctx)
					g.Expect(agent).NotTo(BeNil())
					g.Expect(agent.Spec.Template.Spec.Tolerations).To(ContainElement(corev1.Toleration{Key: "edge", Operator: corev1.TolerationOpExists}))
					g.Expect(agent.Spec.Template.Spec.Containers[0].Resources.Limits).To(HaveKeyWithValue(corev1.ResourceMemory, resource.MustParse("2Gi")))
				}).Should(Succeed())
			})

			It("says so when Rancher refuses what the tenant wants, and goes on when it does not any more", func(ctx context.Context) {
				rancher, ok := f.Rancher.(withFeatures)
				wanted := "schedulingCustomization: {priorityClass: {value: 1000}}"
				if ok {
					annotate(ctx, "archelon.io/agent-deployment", wanted)
					Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RancherClusterRejected"))
					Expect(conditions.GetMessage(importing.Current(ctx, f.Client, cluster), importing.Condition)).
						To(ContainSubstring("cluster-agent-scheduling-customization"))
					Expect(rancher.SetFeature(ctx, "cluster-agent-scheduling-customization", true)).To(Succeed())
					DeferCleanup(func(ctx context.Context) {
						Expect(rancher.SetFeature(ctx, "cluster-agent-scheduling-customization", false)).To(Succeed())
					})
				}
				annotate(ctx, "archelon.io/agent-deployment", wanted+" ")
				Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
				v3 := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: managementName(ctx, f, record)}}
				Eventually(func() *managementv3.AgentDeploymentCustomization {
					return importing.Current(ctx, f.Client, v3).Spec.ClusterAgentDeploymentCustomization
				}).Should(HaveField("SchedulingCustomization.PriorityClass.Value", Equal(1000)))
				if ok {
					class := &schedulingv1.PriorityClass{}
					Eventually(func() error {
						return f.Lane.Client.Get(ctx, client.ObjectKey{Name: "cattle-cluster-agent-priority-class"}, class)
					}).Should(Succeed())
					Expect(class.Value).To(BeEquivalentTo(1000))
				}
			})

			It("gives no more than Rancher lets it give, takes back what is not asked for, and ends", func(ctx context.Context) {
				annotate(ctx, "archelon.io/members", `[{"role": "tenant-owner", "group": "okta_group://a"}, {"role": "tenant-dev", "group": "okta_group://a"}]`)
				Eventually(members(ctx)).Should(Equal("False/MemberRefused"))
				Eventually(bindings(ctx)).Should(Equal([]string{"tenant-dev"}), "Rancher takes its time")
				annotate(ctx, "archelon.io/members", "[]")
				Eventually(bindings(ctx)).Should(BeEmpty())
				Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
				Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
				f.ExpectNothingLeft(ctx, cluster)
			})

			Describe("a cluster whose agent is installed by others", Ordered, func() { manualDelivery(func() *fixture { return f }) })

			AfterAll(func() { f.ExpectLawful() })
		})
	}
})
