package hub_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/test/apart"
)

var _ = Describe("A management cluster that an Archelon in it serves", Label("nightly"), Ordered, func() {
	var (
		rancher *hub
		site    *management
		first   *clusterv1.Cluster
		place   seat.Place
		leave   func()
	)
	// edge has what holds the seat of the management cluster for an Archelon in it, until the returned function is called.
	edge := func(ctx context.Context) (*seat.Seat, func()) {
		GinkgoHelper()
		there, err := kubernetes.NewForConfig(rancher.Management.Config)
		Expect(err).NotTo(HaveOccurred())
		here, err := kubernetes.NewForConfig(site.Config)
		Expect(err).NotTo(HaveOccurred())
		place = seat.Place{
			Origin: types.UID(site.UID), Rancher: there.CoordinationV1(), RancherNamespace: system,
			Management: here.CoordinationV1(), Memory: types.NamespacedName{Namespace: system, Name: seat.MemoryName("archelon")},
		}
		held, err := seat.New(seat.Options{Place: place, Self: "edge", Timing: apart.Soon(), Lost: func(string) {}, Logger: GinkgoLogr})
		Expect(err).NotTo(HaveOccurred())
		sitting, end := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan error, 1)
		go func() { done <- held.Run(sitting) }()
		stop := func() { end(); Expect(<-done).To(Succeed()) }
		return held, stop
	}
	leases := func(ctx context.Context) []string {
		GinkgoHelper()
		list := &coordinationv1.LeaseList{}
		Expect(rancher.Client.List(ctx, list, client.InNamespace(system), client.MatchingLabelsSelector{Selector: seat.MadeSelector()})).To(Succeed())
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names
	}

	BeforeAll(func(ctx SpecContext) {
		rancher = newHub(ctx)
		site = newManagement(ctx, rancher, "site")
		apart.Apply(ctx, rancher.Client, apart.Render(ctx, "edge", map[string]any{"role": "rancher-side", "managementCluster": map[string]any{"uid": site.UID}}))
		rancher.run(ctx)
	})

	It("is not written to by a hub that it is registered with", func(ctx SpecContext) {
		held, stop := edge(ctx)
		leave = stop
		Eventually(held.Held()).Should(BeClosed())
		first = site.Create(ctx, "team-a", "first", site.ControlPlane)
		rancher.register(ctx, "site", site.kubeconfig)
		Eventually(rancher.reasons(ctx, "site")).Should(ConsistOf("SameCluster"))
		Expect(rancher.eventsOf(ctx, "site")[0].Note).To(ContainSubstring("edge"))
		Consistently(func() []string {
			return slices.DeleteFunc(written(site.ControlPlane, siteUser), func(write string) bool { return strings.HasSuffix(write, "selfsubjectaccessreviews") })
		}).WithTimeout(apart.Soon().Expire + apart.Soon().Quiet).Should(BeEmpty())
		Expect(rancher.records(ctx, site, first)).To(BeEmpty())
		Expect(engaged("site")()).To(BeZero())
		Expect(held.Check()).To(Succeed())
	})

	It("is imported from once that Archelon is uninstalled", func(ctx SpecContext) {
		leave()
		leaver, err := seat.NewLeaver(place, apart.Soon(), clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())
		Expect(leaver.Leave(ctx)).To(Succeed())
		Eventually(site.Reason(ctx, first)).Should(Equal("True/Imported"))
		Eventually(engaged("site")).Should(BeEquivalentTo(1))
		Expect(rancher.records(ctx, site, first)).To(HaveLen(1))
	})

	It("is left alone by an Archelon that comes later", func(ctx SpecContext) {
		second, stop := edge(ctx)
		Consistently(second.Held()).WithTimeout(apart.Soon().Expire + apart.Soon().Quiet).ShouldNot(BeClosed())
		Expect(second.Ready(nil)).To(MatchError(ContainSubstring("stop one of them")))
		stop()
		Expect(engaged("site")()).To(BeEquivalentTo(1))
	})

	It("leaves nothing but the chart's Lease when it is not registered any more", func(ctx SpecContext) {
		Expect(leases(ctx)).To(ConsistOf(seat.LeaseName(types.UID(site.UID)) + "-archelon"))
		rancher.end(ctx, "site")
		Eventually(func() []string { return leases(ctx) }).Should(BeEmpty())
		lease := &coordinationv1.Lease{}
		Expect(rancher.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: seat.LeaseName(types.UID(site.UID))}, lease)).To(Succeed())
		Expect(lease.Spec.HolderIdentity).To(BeNil())
	})
})
