package importing

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// ManualDelivery has other means than Archelon install the agent.
func ManualDelivery(c *clusterv1.Cluster) { SetAnnotation(c, "archelon.io/agent-delivery", "manual") }

// ManifestSecret is the Secret with the manifest of the agent for a CAPI cluster.
func ManifestSecret(cluster *clusterv1.Cluster) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name + "-rancher-agent"}}
}

// Manifest returns the manifest of the agent for a CAPI cluster, "" if there is none.
func (f *Fixture) Manifest(ctx context.Context, cluster *clusterv1.Cluster) func() string {
	return func() string {
		secret := ManifestSecret(cluster)
		if f.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret) != nil {
			return ""
		}
		return string(secret.Data["manifest.yaml"])
	}
}

// Apply does in the workload cluster what a person does with the manifest of the agent.
func (l Lane) Apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	for document := range strings.SplitSeq(strings.TrimPrefix(manifest, "---\n"), "\n---\n") {
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
		Expect(l.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("person"))).To(Succeed())
	}
}
