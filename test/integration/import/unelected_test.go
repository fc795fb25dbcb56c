package import_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Processes that were started with --leader-elect=false: by a developer, beside the manager that runs in the cluster,
// or twice.
var _ = Describe("Processes without leader election", Ordered, func() {
	const clusters = 10
	var (
		f     *fixture
		first *stage.Manager
	)
	holder := func(ctx context.Context) func() string {
		return func() string {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: stage.SystemNamespace, Name: "archelon-leader-election"}}
			return ptr.Deref(importing.Current(ctx, f.Client, lease).Spec.HolderIdentity, "")
		}
	}
	// writes are the requests of all managers that may change something, but for what they renew their Leases with.
	writes := func() []auditv1.Event {
		return slices.DeleteFunc(f.Requests(), func(e auditv1.Event) bool {
			return readsOnly(e) || e.ObjectRef != nil && e.ObjectRef.Resource == "leases"
		})
	}
	start := func(ctx context.Context, flags ...string) *stage.Manager {
		GinkgoHelper()
		m, err := f.StartManager(ctx, manager, GinkgoWriter, append([]string{"-v=1", "--sync-period=" + resync.String()}, flags...)...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(m.Kill)
		Eventually(m.Ready).WithContext(ctx).Should(Succeed())
		return m
	}
	expectQuiet := func() {
		GinkgoHelper()
		before := -1
		Eventually(func() bool { // Events and what the last writes woke come first.
			last := before
			before = len(writes())
			return before == last
		}).WithPolling(time.Second).Should(BeTrue())
		Consistently(func() int { return len(writes()) }).WithTimeout(10*time.Second).WithPolling(time.Second).
			Should(Equal(before), func() string { return importing.Listing(writes()[before:]) })
	}

	BeforeAll(func(ctx context.Context) {
		f = &fixture{&importing.Fixture{Stage: startStage(ctx, stage.Options{Name: "unelected", Audit: true}), Tenants: 1}}
		servers, namespace := importing.StartLights(ctx), f.Namespace(ctx, nil)
		for i := range clusters {
			f.lightCluster(ctx, servers, namespace, fmt.Sprintf("c%d", i))
		}
		first = start(ctx)
		f.Choose(ctx, importing.NamespaceOf(namespace), "true")
		list := &clusterv1.ClusterList{}
		Expect(f.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(list.Items).To(HaveLen(clusters))
		for i := range list.Items {
			Eventually(f.Reason(ctx, &list.Items[i])).Should(Equal("True/Imported"))
		}
	})

	It("end when another one takes their Lease, and do not write against it", func(ctx context.Context) {
		before := holder(ctx)()
		Expect(before).NotTo(BeEmpty())
		second := start(ctx)
		Eventually(first.Done()).Should(BeClosed())
		Expect(first.Logs()).To(ContainSubstring("has taken over the Lease of this instance; the process ends"))
		Expect(holder(ctx)()).NotTo(BeElementOf("", before))
		expectQuiet()
		Expect(second.Stop()).To(Succeed())
	})

	It("wait for one that is elected", func(ctx context.Context) {
		elected := start(ctx, "--leader-elect")
		Eventually(holder(ctx)).ShouldNot(BeEmpty())
		before := holder(ctx)()
		waiting := start(ctx)
		expectQuiet()
		Expect(holder(ctx)()).To(Equal(before))
		Expect(elected.Done()).NotTo(BeClosed())
		Expect(waiting.Done()).NotTo(BeClosed())

		By("until that ends")
		Expect(elected.Stop()).To(Succeed())
		Eventually(holder(ctx)).ShouldNot(BeElementOf("", before))
		Expect(waiting.Stop()).To(Succeed())
	})
})
