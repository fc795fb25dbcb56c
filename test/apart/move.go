package apart

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
)

// AgentIn returns the UID of Rancher's agent in a workload cluster.
func AgentIn(ctx context.Context, workload *env.ControlPlane) types.UID {
	GinkgoHelper()
	c, err := client.New(workload.Config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	agent := &appsv1.Deployment{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: "cattle-system", Name: "cattle-cluster-agent"}, agent)).To(Succeed())
	return agent.UID
}

// Move moves a CAPI Cluster as clusterctl does: it is paused, created in the other cluster with another UID and without
// status, and deleted here without waiting for what its finalizers stand for.
func Move(ctx context.Context, from, to *Cluster, cluster *clusterv1.Cluster) *clusterv1.Cluster {
	GinkgoHelper()
	patch := func(m *Cluster, object client.Object, data string) {
		GinkgoHelper()
		Expect(m.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(data)))).To(Succeed())
	}
	patch(from, cluster, `{"spec":{"paused":true}}`)
	Expect(client.IgnoreAlreadyExists(to.Client.Create(ctx, Namespace(cluster.Namespace)))).To(Succeed())
	secret := builder.KubeconfigSecret(cluster.Namespace, cluster.Name, nil)
	Expect(from.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	Expect(to.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels}, Data: secret.Data, Type: secret.Type,
	})).To(Succeed())
	moved := &clusterv1.Cluster{Spec: cluster.Spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.Namespace, Name: cluster.Name, Labels: cluster.Labels, Annotations: cluster.Annotations, Finalizers: cluster.Finalizers,
	}}
	Expect(moved.Finalizers).To(ContainElement(Finalizer))
	Expect(to.Client.Create(ctx, moved)).To(Succeed())
	patch(from, cluster, `{"metadata":{"finalizers":null}}`)
	Expect(from.Client.Delete(ctx, cluster)).To(Succeed())
	builder.ControlPlaneUp(moved)
	Expect(to.Client.Status().Update(ctx, moved)).To(Succeed())
	patch(to, moved, `{"spec":{"paused":null}}`)
	return moved
}
