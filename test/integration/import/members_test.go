package import_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// roleTemplate creates a role template for clusters that gives what the rules say.
func (f *fixture) roleTemplate(ctx context.Context, name string, external bool, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	template := &managementv3.RoleTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Context: "cluster", External: external}
	if template.Rules = rules; external {
		template.Rules, template.ExternalRules = nil, rules
	}
	Expect(f.Client.Create(ctx, template)).To(Succeed())
}

// bindings returns those of the Rancher clusters, as "role to principal", sorted.
func (f *fixture) bindings(ctx context.Context) []string {
	GinkgoHelper()
	list := &managementv3.ClusterRoleTemplateBindingList{}
	Expect(f.Client.List(ctx, list)).To(Succeed())
	all := []string{}
	for i := range list.Items {
		b := &list.Items[i]
		Expect(b.ClusterName).To(Equal(b.Namespace))
		all = append(all, b.RoleTemplateName+" to "+b.GroupPrincipalName+b.UserPrincipalName)
	}
	slices.Sort(all)
	return all
}

// Scenario: a tenant gives people roles in its Rancher cluster.
var _ = Describe("Members", func() {
	for _, strategy := range importing.Strategies() {
		It("have the roles that are asked for, allowed and not more than Archelon may give, as "+strategy, nightlyUnless(strategy == "v3"), func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "members-" + strategy})
			read := rbacv1.PolicyRule{APIGroups: []string{"management.cattle.io"}, Resources: []string{"clusters"}, Verbs: []string{"get"}}
			f.roleTemplate(ctx, "tenant-dev", true, read)
			f.roleTemplate(ctx, "tenant-view", true, read)
			f.roleTemplate(ctx, "cluster-owner", false, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
			f.run(ctx, importing.Gate(strategy)+",rancher-cluster-members=true", "--member-role=tenant-dev,tenant-view,cluster-owner",
				"--member-principal=okta_group://tenant-", "--member-principal=okta_user://")
			ask := func(cluster *clusterv1.Cluster, members string) {
				f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, "archelon.io/members", members) })
			}
			cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected, func(c *clusterv1.Cluster) {
				importing.SetAnnotation(c, "archelon.io/members",
					`[{"role": "tenant-dev", "group": "okta_group://tenant-a"}, {"role": "tenant-view", "user": "okta_user://jane"}]`)
			})
			members := func() string {
				found := conditions.Get(importing.Current(ctx, f.Client, cluster), "RancherMembers")
				if found == nil {
					return "none"
				}
				return string(found.Status) + "/" + found.Reason
			}
			bindings := func() []string { return f.bindings(ctx) }
			dev, view := "tenant-dev to okta_group://tenant-a", "tenant-view to okta_user://jane"
			Eventually(members).Should(Equal("True/MembersBound"))
			Expect(bindings()).To(Equal([]string{dev, view}))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))

			By("what others bind is left alone, and what they delete comes back")
			list := &managementv3.ClusterRoleTemplateBindingList{}
			Expect(f.Client.List(ctx, list, client.MatchingLabels{importing.UIDLabel: string(cluster.UID), importing.OwnerLabel: cluster.Name})).To(Succeed())
			Expect(list.Items).To(HaveLen(2))
			foreign := &managementv3.ClusterRoleTemplateBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: list.Items[0].Namespace, Name: "crtb-abcde"}, ClusterName: list.Items[0].Namespace,
				RoleTemplateName: "cluster-owner", UserPrincipalName: "local://u-abcde",
			}
			Expect(f.Client.Create(ctx, foreign)).To(Succeed())
			Expect(f.Client.Delete(ctx, &list.Items[0])).To(Succeed())
			Eventually(bindings).Should(Equal([]string{"cluster-owner to local://u-abcde", dev, view}))

			By("one whose label somebody takes off is nobody's, until it has the label again")
			relabel := func(change func(labels map[string]string)) {
				Expect(f.Client.List(ctx, list, client.InNamespace(foreign.Namespace))).To(Succeed())
				for i := range list.Items {
					if b := &list.Items[i]; b.RoleTemplateName == "tenant-dev" {
						f.Patch(ctx, b, func(o client.Object) { change(o.GetLabels()) })
					}
				}
			}
			relabel(func(labels map[string]string) { labels[importing.UIDLabel] = "other" })
			Eventually(members).Should(Equal("False/MemberRefused"))
			Expect(conditions.GetMessage(importing.Current(ctx, f.Client, cluster), "RancherMembers")).To(ContainSubstring("does not belong to Archelon"))
			relabel(func(labels map[string]string) { labels[importing.UIDLabel] = string(cluster.UID) })
			Eventually(members).Should(Equal("True/MembersBound"))

			By("a settled cluster costs no request")
			Eventually(members).Should(Equal("True/MembersBound"))
			quiet := 0
			Eventually(func() bool { // Events and what the last writes woke come first.
				before := quiet
				quiet = len(importing.PerObject(f.Requests()))
				return quiet == before
			}).WithPolling(time.Second).Should(BeTrue())
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, "example.com/note", "x") })
			Consistently(func() int { return len(importing.PerObject(f.Requests())) }).Should(Equal(quiet))

			By("who is not asked for any more loses the role, and who may not be asked for gets none")
			ask(cluster, `[{"role": "tenant-dev", "group": "okta_group://tenant-a"}, {"role": "project-owner", "group": "okta_group://tenant-a"}]`)
			Eventually(members).Should(Equal("False/MemberNotAllowed"))
			Expect(bindings()).To(Equal([]string{"cluster-owner to local://u-abcde", dev}))
			Eventually(func() []string { return f.Events(ctx, cluster) }).Should(ContainElements("MembersBound", "MemberNotAllowed"))

			By("a slip takes nobody's role away")
			ask(cluster, "[")
			Eventually(members).Should(Equal("False/InvalidMembers"))
			Expect(bindings()).To(ContainElement(dev))

			By("what gives more than Archelon has is refused by Rancher, whatever the administrator of Archelon allows")
			ask(cluster, `[{"role": "cluster-owner", "group": "okta_group://tenant-a"}, {"role": "tenant-dev", "group": "okta_group://tenant-a"}]`)
			Eventually(members).Should(Equal("False/MemberRefused"))
			Expect(conditions.GetMessage(importing.Current(ctx, f.Client, cluster), "RancherMembers")).To(ContainSubstring("RBAC permissions not currently held"))
			Expect(bindings()).To(Equal([]string{"cluster-owner to local://u-abcde", dev}))

			By("without the annotation nobody is left but whom others bound")
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { delete(o.GetAnnotations(), "archelon.io/members") })
			Eventually(members).Should(Equal("none"))
			Expect(bindings()).To(Equal([]string{"cluster-owner to local://u-abcde"}))

			By("they go with the Rancher cluster")
			ask(cluster, `[{"role": "tenant-dev", "group": "okta_group://tenant-a"}]`)
			Eventually(members).Should(Equal("True/MembersBound"))
			f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
			Eventually(bindings).Should(BeEmpty())
			Eventually(members).Should(Equal("False/WaitingForRancherCluster"))
			f.ExpectLawful()
		})
	}
})
