package rancher_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// secretToken returns the token in a Secret.
func secretToken(ctx context.Context, g Gomega, namespace, name string) string {
	secret := &corev1.Secret{}
	g.Expect(management.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)).To(Succeed())
	return string(secret.Data["token"])
}

// agent is the agent's Deployment.
func agent() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", Name: "cattle-cluster-agent"}}
}

// removeAgent takes the agent and its credentials out of the workload cluster, but leaves the namespace.
func removeAgent(ctx context.Context) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(workload.Delete(ctx, agent()))).To(Succeed())
	Expect(workload.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("cattle-system"))).To(Succeed())
}

// download returns the manifest of a cluster's default token.
func download(ctx context.Context, s *rancher.Standin, cluster string) string {
	GinkgoHelper()
	got, err := fetch(ctx, s.CACert(), manifestURL(ctx, cluster, "default-token"))
	Expect(err).NotTo(HaveOccurred())
	Expect(got.status).To(Equal(200), got.body)
	return got.body
}

// join lets the agent of the workload cluster connect for a new v3 Cluster.
func join(ctx context.Context, s *rancher.Standin, name string) *unstructured.Unstructured {
	GinkgoHelper()
	cluster := newCluster(ctx, name)
	apply(ctx, download(ctx, s, cluster.GetName()), nil)
	Eventually(clusterConditions(cluster.GetName())).WithContext(ctx).Should(And(
		HaveKeyWithValue("Connected", "True"),
		HaveKeyWithValue("Ready", "True"),
		HaveKeyWithValue("AgentDeployed", "True"),
	))
	return cluster
}
