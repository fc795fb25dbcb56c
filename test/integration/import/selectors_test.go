package import_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Two teams divide a management cluster by labels of namespaces, and some namespaces have the labels of both.
var _ = Describe("Two selectors that fit the same", func() {
	Describe("20 namespaces", Ordered, func() { twoSelectors(20) })
	Describe("200 namespaces", Label("nightly"), Ordered, func() { twoSelectors(200) })
})

func twoSelectors(namespaces int) {
	var (
		f         *fixture
		instances = []stage.Instance{{Name: "blue"}, {Name: "green"}}
		// They do not say the same of a Cluster.
		flags    = [][]string{{"--namespace-selector=team=blue"}, {"--namespace-selector=env=green", "--turtles-parked"}}
		clusters []*clusterv1.Cluster
		lease    *coordinationv1.Lease
	)
	// writes are the requests of both instances that change a CAPI Cluster.
	writes := func() []auditv1.Event {
		GinkgoHelper()
		events, err := f.Management.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		return slices.DeleteFunc(events, func(e auditv1.Event) bool {
			ours := slices.ContainsFunc(instances, func(i stage.Instance) bool { return e.User.Username == i.User() })
			return !ours || readsOnly(e) || e.ObjectRef == nil || e.ObjectRef.Resource != "clusters"
		})
	}
	// renew has Turtles renew its Lease, which is believed for a minute then.
	renew := func(ctx context.Context) {
		GinkgoHelper()
		f.Patch(ctx, lease, func(client.Object) {
			lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = new(int32(3600)), new(metav1.NowMicro())
		})
	}
	expectQuiet := func(ctx context.Context) {
		GinkgoHelper()
		renew(ctx)
		before := -1
		Eventually(func() bool { // What the last change woke comes first, which a busy API server shows late.
			last := before
			before = len(writes())
			return before == last
		}).WithPolling(5 * time.Second).Should(BeTrue())
		Consistently(func() int { return len(writes()) }).WithTimeout(10*time.Second).WithPolling(2*time.Second).
			Should(Equal(before), func() string { return importing.Listing(writes()[before:]) })
	}
	const ofBlue, ofGreen = "False/TurtlesActive", "False/WaitingForControlPlane"
	expect := func(ctx context.Context, reason string) {
		GinkgoHelper()
		for _, cluster := range clusters {
			Eventually(f.Reason(ctx, cluster)).Should(Equal(reason), cluster.Namespace)
		}
	}
	label := func(ctx context.Context, labels map[string]string) {
		GinkgoHelper()
		renew(ctx)
		for _, cluster := range clusters {
			f.Patch(ctx, importing.NamespaceOf(cluster.Namespace), func(o client.Object) { o.SetLabels(labels) })
		}
	}

	BeforeAll(func(ctx context.Context) {
		f = &fixture{&importing.Fixture{Stage: startStage(ctx, stage.Options{Name: "selectors", Audit: true})}}
		lease = f.TurtlesAtWork(ctx)
		for i, instance := range instances {
			Expect(f.Install(ctx, instance)).To(Succeed())
			m, err := f.StartInstance(ctx, instance, manager, GinkgoWriter, flags[i]...)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(m.Kill)
			Eventually(m.Ready).WithContext(ctx).Should(Succeed())
		}
		for i := range namespaces {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("both-%d", i), Labels: map[string]string{"team": "blue", "env": "green"},
			}}
			Expect(f.Client.Create(ctx, namespace)).To(Succeed())
			cluster := builder.Cluster(namespace.Name, "prod")
			importing.Selected(cluster)
			Expect(f.Client.Create(ctx, cluster)).To(Succeed())
			clusters = append(clusters, cluster)
		}
	})

	It("is no reason to write the condition against each other: the instance with the older Lease has the Cluster", func(ctx context.Context) {
		expect(ctx, ofBlue)
		expectQuiet(ctx)
		Expect(len(writes())).To(BeNumerically("<=", 2*namespaces))
	})

	It("ends when one of them does not fit any more", func(ctx context.Context) {
		before := len(writes())
		label(ctx, map[string]string{"team": "red", "env": "green"})
		expect(ctx, ofGreen)
		label(ctx, map[string]string{"team": "blue", "env": "green"})
		expect(ctx, ofBlue)
		Expect(len(writes())-before).To(BeNumerically("<=", 2*2*namespaces), func() string { return importing.Listing(writes()[before:]) })
	})

	It("costs two writes for a change while the labels change all the time", func(ctx context.Context) {
		before := len(writes())
		changes := []map[string]string{
			{"team": "blue", "env": "red"}, {"team": "red", "env": "green"}, {"team": "red", "env": "red"}, {"team": "blue", "env": "green"},
		}
		for _, labels := range changes {
			label(ctx, labels)
		}
		expectQuiet(ctx)
		expect(ctx, ofBlue)
		Expect(len(writes())-before).To(BeNumerically("<=", 2*len(changes)*namespaces), func() string { return importing.Listing(writes()[before:]) })
	})
}
