package admission_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/archelon-io/archelon/internal/scheme"
)

const (
	ownerNamespace = "cluster-api.cattle.io/capi-cluster-owner-ns"
	madeFrom       = "objectset.rio.cattle.io/owner-namespace"
	ourFinalizer   = "archelon.io/rancher-import"
)

// foreign matches the refusal of a write to a Rancher cluster that belongs elsewhere.
func foreign() gomegatypes.GomegaMatcher {
	return And(MatchError(apierrors.IsForbidden, "forbidden"), MatchError(ContainSubstring(
		"this instance may not change CAPI Clusters in the namespace to which the Rancher cluster belongs")))
}

var _ = Describe("The policy that isolates an instance", Ordered, func() {
	var w *world
	var instance client.Client
	// record returns a v3 Cluster with a label, an annotation and a finalizer, each unless it is empty.
	record := func(name, label, annotation, finalizer string) *managementv3.Cluster {
		c := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if label != "" {
			c.Labels = map[string]string{ownerNamespace: label}
		}
		if annotation != "" {
			c.Annotations = map[string]string{madeFrom: annotation}
		}
		if finalizer != "" {
			c.Finalizers = []string{finalizer}
		}
		return c
	}
	// change reports how a change by the instance ends, and remove how a deletion does. Nothing is written.
	change := func(ctx context.Context, name string, mutate func(*managementv3.Cluster)) error {
		GinkgoHelper()
		before := &managementv3.Cluster{}
		Expect(w.admin.Get(ctx, client.ObjectKey{Name: name}, before)).To(Succeed())
		after := before.DeepCopy()
		mutate(after)
		return instance.Patch(ctx, after, client.MergeFrom(before), client.DryRunAll)
	}
	describe := func(c *managementv3.Cluster) { c.Spec.Description = "changed" }
	label := func(namespace string) func(*managementv3.Cluster) {
		return func(c *managementv3.Cluster) { c.Labels = map[string]string{ownerNamespace: namespace} }
	}
	remove := func(ctx context.Context, name string) error {
		return instance.Delete(ctx, record(name, "", "", ""), client.DryRunAll)
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, isolated, tenant, team, excluded)
		for _, c := range []*managementv3.Cluster{
			record("local", "", "", ""), record("c-team1", team, "", ourFinalizer), record("c-tenan", tenant, "", ourFinalizer),
			record("c-m-team", "", team, ""), record("c-m-tenant", team, tenant, ""), record("c-lostl", "", "", ourFinalizer),
			record("c-excl1", excluded, "", ourFinalizer),
		} {
			Expect(w.admin.Create(ctx, c)).To(Succeed())
		}
		values := map[string]any{
			"namespaces": []any{team, excluded}, "features": map[string]any{"managementv3-cluster": map[string]any{"enabled": true}},
		}
		w.installed(ctx, isolated, values, func(object *unstructured.Unstructured) bool {
			kinds := []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "RoleBinding"}
			return slices.Contains(kinds, object.GetKind()) || isPolicy(object)
		})
		config, err := w.plane.ServiceAccountConfig(ctx, isolated, "archelon")
		Expect(err).NotTo(HaveOccurred())
		known, err := scheme.New()
		Expect(err).NotTo(HaveOccurred())
		instance, err = client.New(config, client.Options{Scheme: known})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error { return remove(ctx, "local") }).WithTimeout(patience).Should(foreign())
	})

	It("lets it write to Rancher clusters of its namespaces", func(ctx SpecContext) {
		Expect(instance.Create(ctx, record("c-new01", team, "", ourFinalizer), client.DryRunAll)).To(Succeed())
		for _, name := range []string{"c-team1", "c-m-team"} {
			Expect(change(ctx, name, describe)).To(Succeed(), name)
			Expect(remove(ctx, name)).To(Succeed(), name)
		}
	})

	It("refuses it all others, that of the management cluster among them", func(ctx SpecContext) {
		Expect(instance.Create(ctx, record("c-new01", tenant, "", ourFinalizer), client.DryRunAll)).To(foreign())
		Expect(instance.Create(ctx, record("c-new01", "", "", ""), client.DryRunAll)).To(foreign())
		for _, name := range []string{"local", "c-tenan", "c-m-tenant"} {
			Expect(change(ctx, name, describe)).To(foreign(), name)
			Expect(remove(ctx, name)).To(foreign(), name)
		}
	})

	It("refuses to move one out of its namespaces, or into them", func(ctx SpecContext) {
		Expect(change(ctx, "c-team1", label(tenant))).To(foreign())
		Expect(change(ctx, "c-tenan", label(team))).To(foreign())
		Expect(change(ctx, "local", label(team))).To(foreign())
		Expect(change(ctx, "local", func(c *managementv3.Cluster) { controllerutil.AddFinalizer(c, ourFinalizer) })).To(foreign())
	})

	It("lets it label one again that has lost the label", func(ctx SpecContext) {
		Expect(change(ctx, "c-lostl", label(team))).To(Succeed())
		Expect(change(ctx, "c-lostl", label(tenant))).To(foreign())
		Expect(remove(ctx, "c-lostl")).To(Succeed())
	})

	It("judges nobody else", func(ctx SpecContext) {
		Expect(w.admin.Delete(ctx, record("local", "", "", ""), client.DryRunAll)).To(Succeed())
	})

	It("follows the RoleBindings: what is withdrawn can be let go until the RoleBinding is gone", func(ctx SpecContext) {
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: excluded, Name: "archelon-isolated"}}
		letGo := func(c *managementv3.Cluster) { controllerutil.RemoveFinalizer(c, ourFinalizer) }
		Expect(w.admin.Delete(ctx, binding)).To(Succeed())
		Consistently(func() error { return change(ctx, "c-excl1", letGo) }).Should(Succeed())
		Expect(w.admin.Patch(ctx, binding, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Eventually(func() error { return change(ctx, "c-excl1", letGo) }).WithTimeout(patience).Should(foreign())

		By("what is granted by hand counts too")
		granted := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "by-hand"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: isolated + ".archelon-namespace"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: isolated, Name: "archelon"}},
		}
		Expect(w.admin.Create(ctx, granted)).To(Succeed())
		Eventually(func() error { return change(ctx, "c-tenan", describe) }).WithTimeout(patience).Should(Succeed())
	})

	It("does not come with a release that works in all namespaces", func(ctx SpecContext) {
		objects := w.installed(ctx, central, nil, isPolicy)
		for _, object := range objects {
			Expect(object.GetName()).To(HaveSuffix("-admission"))
		}
	})
})
