package fleet_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// narrow lets a user of the management cluster look at Clusters and get Secrets in the spec's namespace, and nothing
// else. The local manager becomes that user.
func (w *world) narrow(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(managementAdmin.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		},
	})).To(Succeed())
	Expect(managementAdmin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	})).To(Succeed())
	var err error
	w.access, err = management.User(name)
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("Permissions that are narrower", func() {
	It("needs get of Secrets alone, in one namespace, if it does not watch them", func(ctx context.Context) {
		w := newWorld(ctx)
		w.narrow(ctx, "reader-"+w.namespace)
		w.pod(ctx, workloadAdmin, "first")
		options := w.options()
		options.UnwatchedSecrets = true
		w.build(options, nil)
		w.count(w.manager)
		w.start(w.manager)
		name := w.engage(ctx, "one", workload, workload.Config)
		Eventually(w.counted(name)).Should(Equal(1))
		Expect(w.provider.ListClusters()).To(ConsistOf(name))
	})

	It("looks at no events that predicates keep back", func(ctx context.Context) {
		w := newWorld(ctx)
		w.pod(ctx, workloadAdmin, "first")
		options := w.options()
		options.Predicates = []predicate.Predicate{predicate.NewPredicateFuncs(func(ccl client.Object) bool { return ccl.GetName() != "kept-back" })}
		w.build(options, nil)
		w.count(w.manager)
		w.start(w.manager)
		w.engage(ctx, "kept-back", workload, workload.Config)
		name := w.engage(ctx, "one", workload, workload.Config)
		Eventually(w.counted(name)).Should(Equal(1))
		Expect(w.state("kept-back")()).To(Equal("none"))
	})
})
