package importing

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
)

const (
	// Reaction is how long a phase may take to go on when its event has come. It is shorter than the timers that would
	// wake it otherwise: they take 30 seconds and more, and have no flag.
	Reaction = 20 * time.Second
	// Quiet is for how long a spec looks that nothing happens.
	Quiet = 4 * time.Second
)

// Selected has a CAPI cluster imported.
func Selected(c *clusterv1.Cluster) { c.Labels = map[string]string{ImportLabel: "true"} }

// Cluster creates a CAPI cluster whose control plane is up and which reaches the fixture's workload cluster.
func (f *Fixture) Cluster(ctx context.Context, namespace, name string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	GinkgoHelper()
	return f.ClusterIn(ctx, f.Lane, namespace, name, change...)
}

// ClusterIn creates a CAPI cluster that reaches the workload cluster of the lane.
func (f *Fixture) ClusterIn(ctx context.Context, l Lane, namespace, name string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	GinkgoHelper()
	kubeconfig, err := l.Plane.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	return f.ClusterWith(ctx, namespace, name, kubeconfig, change...)
}

// ClusterWith creates a CAPI cluster with a given kubeconfig, whose control plane is up.
func (f *Fixture) ClusterWith(
	ctx context.Context, namespace, name string, kubeconfig []byte, change ...func(*clusterv1.Cluster),
) *clusterv1.Cluster {
	GinkgoHelper()
	Expect(f.Client.Create(ctx, builder.KubeconfigSecret(namespace, name, kubeconfig))).To(Succeed())
	cluster := builder.Cluster(namespace, name)
	for _, c := range change {
		c(cluster)
	}
	Expect(f.Client.Create(ctx, cluster)).To(Succeed())
	f.Status(ctx, cluster, builder.ControlPlaneUp)
	return cluster
}

// Status changes the status of a CAPI cluster as CAPI would, whoever else changes the object meanwhile.
func (f *Fixture) Status(ctx context.Context, cluster *clusterv1.Cluster, change func(*clusterv1.Cluster)) {
	GinkgoHelper()
	Eventually(f.K(ctx).UpdateStatus(cluster, func() { change(cluster) })).Should(Succeed())
}

// Reason returns status and reason of the import's condition, as "True/Imported".
func (f *Fixture) Reason(ctx context.Context, cluster *clusterv1.Cluster) func() string {
	return f.ReasonIn(ctx, cluster, Condition)
}

// ReasonIn returns status and reason of a condition, as Reason does.
func (f *Fixture) ReasonIn(ctx context.Context, cluster *clusterv1.Cluster, condition string) func() string {
	return func() string {
		found := &clusterv1.Cluster{}
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(cluster), found); err != nil {
			return err.Error()
		}
		return reasonIn(found, condition)
	}
}

// ReasonOf returns status and reason of the import's condition, as "True/Imported", "none" without one.
func ReasonOf(cluster *clusterv1.Cluster) string { return reasonIn(cluster, Condition) }

func reasonIn(cluster *clusterv1.Cluster, condition string) string {
	c := conditions.Get(cluster, condition)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s/%s", c.Status, c.Reason)
}

// Patch changes metadata of an object without a lock.
func (f *Fixture) Patch(ctx context.Context, object client.Object, change func(client.Object)) {
	GinkgoHelper()
	before, _ := object.DeepCopyObject().(client.Object)
	change(object)
	Expect(f.Client.Patch(ctx, object, client.MergeFrom(before))).To(Succeed())
}

// Choose sets the import label of a CAPI cluster or of a namespace.
func (f *Fixture) Choose(ctx context.Context, object client.Object, value string) {
	GinkgoHelper()
	f.Patch(ctx, object, func(o client.Object) {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[ImportLabel] = value
		o.SetLabels(labels)
	})
}

// Agent returns the agent's Deployment in the workload cluster, or nil.
func (f *Fixture) Agent(ctx context.Context) *appsv1.Deployment {
	deployment := &appsv1.Deployment{}
	if err := f.Lane.Client.Get(ctx, client.ObjectKey{Namespace: AgentNamespace, Name: AgentDeployment}, deployment); err != nil {
		return nil
	}
	return deployment
}

// Events returns the reasons of the Events about a CAPI cluster.
func (f *Fixture) Events(ctx context.Context, cluster *clusterv1.Cluster) []string {
	GinkgoHelper()
	return f.told(ctx, cluster, func(event *corev1.Event) string { return event.Reason })
}

// Notes returns the messages of the Events about a CAPI cluster.
func (f *Fixture) Notes(ctx context.Context, cluster *clusterv1.Cluster) []string {
	GinkgoHelper()
	return f.told(ctx, cluster, func(event *corev1.Event) string { return event.Message })
}

func (f *Fixture) told(ctx context.Context, cluster *clusterv1.Cluster, part func(*corev1.Event) string) []string {
	GinkgoHelper()
	list := &corev1.EventList{}
	Expect(f.Client.List(ctx, list, client.InNamespace(cluster.Namespace))).To(Succeed())
	var parts []string
	for i := range list.Items {
		if event := &list.Items[i]; event.InvolvedObject.UID == cluster.UID {
			parts = append(parts, part(event))
		}
	}
	return parts
}
