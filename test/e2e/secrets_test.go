package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// metricsReader returns the token of a ServiceAccount that may read metrics and nothing else.
func (f *fixture) metricsReader(ctx context.Context) string {
	GinkgoHelper()
	name := metav1.ObjectMeta{Name: "metrics-reader", Namespace: "default"}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: name},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name.Name},
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name.Name, Namespace: name.Namespace}},
		},
	} {
		// Several specs of a container may need one.
		Expect(client.IgnoreAlreadyExists(f.Client.Create(ctx, object))).To(Succeed())
	}
	config, err := f.Management.ServiceAccountConfig(ctx, name.Namespace, name.Name)
	Expect(err).NotTo(HaveOccurred())
	return config.BearerToken
}
