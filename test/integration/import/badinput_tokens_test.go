package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
)

func (w *badWorld) badTokens() {
	type step func(context.Context, *corev1.Secret)
	var kept []byte
	DescribeTable("tells what is wrong with their Secrets, and goes on when it is put right", func(ctx context.Context, c badInput, spoil, repair step) {
		// Without a kubeconfig the import does not get to the token before it is spoilt.
		clusters := w.begin(ctx, []string{c.name}, func(*clusterv1.Cluster) {})
		cluster := clusters[c.name]
		w.release(ctx)
		Eventually(w.Reason(ctx, cluster)).Should(Equal("False/KubeconfigMissing"))
		token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.V3Records(ctx, cluster)[0].Name, Name: "crt-token-default-token"}}
		spoil(ctx, importing.Current(ctx, w.Client, token))
		before := w.tries()[client.ObjectKeyFromObject(cluster)]
		Expect(w.Client.Create(ctx, w.kubeconfig(cluster))).To(Succeed())
		Eventually(w.Reason(ctx, cluster)).ShouldNot(Equal("False/KubeconfigMissing"))
		found := w.examine(ctx, clusters, window/2, c)[c.name]
		found.tries = found.tries[len(before):]
		repair(ctx, token)
		c.expect(found)
		Eventually(w.Reason(ctx, cluster)).Should(Equal("True/Imported"))
	},
		Entry("a Secret that is gone", badInput{"", "no-token", "TokenSecretMissing", "(D|d)elete the ClusterRegistrationToken: Rancher creates it again", once},
			step(func(ctx context.Context, token *corev1.Secret) {
				w.Rancher.Down() // else it makes another one at once
				Expect(w.Client.Delete(ctx, token)).To(Succeed())
			}),
			step(func(ctx context.Context, _ *corev1.Secret) { Expect(w.Rancher.Up(ctx)).To(Succeed()) })),
		Entry("a Secret without a token", badInput{"", "empty-token", "TokenSecretEmpty", "(D|d)elete the ClusterRegistrationToken: Rancher creates it again", once},
			step(func(ctx context.Context, token *corev1.Secret) {
				w.Patch(ctx, token, func(client.Object) { kept, token.Data["token"] = token.Data["token"], []byte{} })
			}),
			step(func(ctx context.Context, token *corev1.Secret) {
				w.Patch(ctx, importing.Current(ctx, w.Client, token), func(client.Object) { token.Data["token"] = kept })
			})),
	)
	It("waits for the namespace of a record, asks nothing meanwhile, and goes on when Rancher makes it", func(ctx context.Context) {
		w.Rancher.Down()
		DeferCleanup(w.Rancher.Up)
		cluster := w.bareCluster(ctx, "no-namespace", nil)
		Expect(w.Client.Create(ctx, w.kubeconfig(cluster))).To(Succeed())
		w.Choose(ctx, importing.Current(ctx, w.Client, cluster), "true")
		Eventually(w.Reason(ctx, cluster)).Should(Equal("False/WaitingForRancher"))
		Expect(conditions.Get(importing.Current(ctx, w.Client, cluster), "RancherImported").Message).
			To(ContainSubstring("After a minute, check the log of Rancher"))
		asked := len(w.RequestsFor(cluster))
		Consistently(func() int { return len(w.RequestsFor(cluster)) }).Should(BeNumerically("<=", asked+1), "an Event may still be on its way")
		Expect(w.Rancher.Up(ctx)).To(Succeed())
		Eventually(w.Reason(ctx, cluster)).Should(Equal("True/Imported"))
	})
}
