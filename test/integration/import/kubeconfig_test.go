package import_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Literals of the contract.
const (
	kubeconfigSecret  = "archelon.io/kubeconfig-secret"
	kubeconfigContext = "archelon.io/kubeconfig-context"
	clusterName       = "cluster.x-k8s.io/cluster-name"
)

// Kamaji, k3k and vcluster, and whoever has a tunnel, have another kubeconfig than the one by CAPI's name.
var _ = Describe("A kubeconfig that annotations name", Ordered, func() {
	var (
		f         *fixture
		namespace string
	)
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "kubeconfig", Audit: true, Rancher: func(o *rancher.Options) {
			o.Timings = rancher.Timings{AgentRetry: 50 * time.Millisecond, NamespaceController: 5 * time.Second, Poll: 50 * time.Millisecond, TokenGrace: time.Minute}
			o.Logger = GinkgoLogr
		}})
		f.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true", "--sync-period=1h")
	})
	BeforeEach(func(ctx context.Context) { namespace = f.Namespace(ctx, nil) })
	AfterEach(func(ctx context.Context) {
		list := &clusterv1.ClusterList{}
		Expect(f.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		for i := range list.Items {
			Expect(client.IgnoreNotFound(f.Client.Delete(ctx, &list.Items[i]))).To(Succeed())
			Eventually(f.K(ctx).Get(&list.Items[i])).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, &list.Items[i])
		}
		f.expectNoAgent(ctx)
	})
	AfterAll(func() {
		f.ExpectLawful()
		f.ExpectNoSecrets()
	})

	// usual takes the place of the Secret that CAPI's contract names, for a kubeconfig that leads nowhere.
	usual := func(ctx context.Context, name string) {
		GinkgoHelper()
		Expect(client.IgnoreNotFound(f.Client.Delete(ctx, builder.KubeconfigSecret(namespace, name, nil)))).To(Succeed())
	}
	// contexts is a kubeconfig whose current context leads nowhere, and whose context "inside" leads to the
	// workload cluster.
	contexts := func() []byte {
		GinkgoHelper()
		raw, err := f.Lane.Plane.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.Load(raw)
		Expect(err).NotTo(HaveOccurred())
		config.Contexts["inside"] = config.Contexts[config.CurrentContext]
		config.Clusters["nowhere"] = &api.Cluster{Server: deadServer}
		config.Contexts["outside"] = &api.Context{Cluster: "nowhere", AuthInfo: config.Contexts["inside"].AuthInfo}
		config.CurrentContext = "outside"
		raw, err = clientcmd.Write(*config)
		Expect(err).NotTo(HaveOccurred())
		return raw
	}
	secretOf := func(name, labelled, key string, content []byte) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{key: content}}
		if labelled != "" {
			secret.Labels = map[string]string{clusterName: labelled}
		}
		return secret
	}
	annotate := func(ctx context.Context, cluster *clusterv1.Cluster, key, value string) {
		GinkgoHelper()
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, key, value) })
	}
	message := func(ctx context.Context, cluster *clusterv1.Cluster) func() string {
		return func() string {
			condition := conditions.Get(importing.Current(ctx, f.Client, cluster), importing.Condition)
			if condition == nil {
				return "none"
			}
			return condition.Reason + ": " + condition.Message
		}
	}

	It("imports by another Secret, key and context", func(ctx context.Context) {
		Expect(f.Client.Create(ctx, secretOf("tenant-admin", "named", "admin.conf", contexts()))).To(Succeed())
		cluster := f.Cluster(ctx, namespace, "named", func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{kubeconfigSecret: "tenant-admin/admin.conf", kubeconfigContext: "inside"}
		})
		usual(ctx, "named")
		f.Choose(ctx, cluster, "true")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
	})

	It("goes on when the annotations lead to the right one", func(ctx context.Context) {
		Expect(f.Client.Create(ctx, secretOf("tunnel", "later", "value", contexts()))).To(Succeed())
		cluster := f.Cluster(ctx, namespace, "later")
		usual(ctx, "later")
		f.Choose(ctx, cluster, "true")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/KubeconfigMissing"))
		annotate(ctx, cluster, kubeconfigSecret, "other-namespace/tunnel/value")
		Eventually(message(ctx, cluster)).WithTimeout(importing.Reaction).Should(HavePrefix("InvalidSetting: Annotation archelon.io/kubeconfig-secret " +
			"cannot be used: it must be the name of a Secret in the namespace of this Cluster, or NAME/KEY"))
		annotate(ctx, cluster, kubeconfigSecret, "tunnel")
		Eventually(f.Reason(ctx, cluster)).WithTimeout(importing.Reaction).Should(Equal("False/WorkloadUnreachable"))
		annotate(ctx, cluster, kubeconfigContext, "s3cret-context")
		Eventually(message(ctx, cluster)).WithTimeout(importing.Reaction).Should(HavePrefix("KubeconfigInvalid: " +
			"The kubeconfig has no context of the name in annotation archelon.io/kubeconfig-context. Add it to contexts, or correct the annotation"))
		annotate(ctx, cluster, kubeconfigContext, "inside")
		Eventually(f.Reason(ctx, cluster)).WithTimeout(importing.Reaction).Should(Equal("True/Imported"))
	})

	It("reads no Secret that is not labelled as the Cluster's, and sees when it is", func(ctx context.Context) {
		whole, err := f.Lane.Plane.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		before := len(f.workloadRequests())
		cluster := f.Cluster(ctx, namespace, "own", func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{kubeconfigSecret: "secret-0"}
		})
		usual(ctx, "own")
		Expect(f.Client.Create(ctx, secretOf("secret-1", "", "value", whole))).To(Succeed())
		Expect(f.Client.Create(ctx, secretOf("secret-2", "other", "value", whole))).To(Succeed())
		Expect(f.Client.Create(ctx, secretOf("other-kubeconfig", "other", "value", whole))).To(Succeed())
		f.Choose(ctx, cluster, "true")
		// What is said does not tell whether there is such a Secret.
		for _, name := range []string{"secret-0", "secret-1", "other-kubeconfig", "secret-2"} {
			annotate(ctx, cluster, kubeconfigSecret, name)
			Eventually(message(ctx, cluster)).WithTimeout(importing.Reaction).Should(HavePrefix(strings.ReplaceAll(
				`KubeconfigMissing: No Secret NAMESPACE/`+name+` with label cluster.x-k8s.io/cluster-name: "own" exists, `+
					`which annotation archelon.io/kubeconfig-secret names. Correct the annotation, create the Secret, or set that label on the Secret. `+
					`A Secret without the label is not read`, "NAMESPACE", namespace)))
		}
		Expect(f.workloadRequests()).To(HaveLen(before), "something was sent by a Secret of others")

		By("seeing the label, and each change of the Secret")
		label := func(content []byte) {
			GinkgoHelper()
			Expect(f.Client.Update(ctx, secretOf("secret-2", "own", "value", content))).To(Succeed())
		}
		label([]byte("no kubeconfig"))
		Eventually(f.Reason(ctx, cluster)).WithTimeout(importing.Reaction).Should(Equal("False/KubeconfigInvalid"))
		label(whole)
		Eventually(f.Reason(ctx, cluster)).WithTimeout(importing.Reaction).Should(Equal("True/Imported"))
	})
})
