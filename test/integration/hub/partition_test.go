package hub_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/env"
)

// noticed bounds how long the hub may take to notice. The suite has it ask a silent connection every second.
const noticed = 20 * time.Second

var _ = Describe("A management cluster that was connected", Label("nightly"), Ordered, func() {
	var (
		rancher    *hub
		east, west *management
		toEast     *wire
		first      *clusterv1.Cluster
		stop       func()
	)

	BeforeAll(func(ctx SpecContext) {
		rancher = newHub(ctx)
		east, west = newManagement(ctx, rancher, "east"), newManagement(ctx, rancher, "west")
		toEast = newWire(east)
		stop = rancher.run(ctx)
		rancher.register(ctx, "east", toEast.kubeconfig(east))
		rancher.register(ctx, "west", west.kubeconfig)
		first = east.Create(ctx, "team-a", "first", west.ControlPlane)
		Eventually(east.Reason(ctx, first)).Should(Equal("True/Imported"))
		Eventually(engaged("west")).Should(BeEquivalentTo(1))
	})

	// versions are those of the Rancher clusters of east.
	versions := func(ctx context.Context) map[string]string {
		GinkgoHelper()
		list := &managementv3.ClusterList{}
		Expect(rancher.Client.List(ctx, list, client.MatchingLabels{apart.OriginLabel: east.UID})).To(Succeed())
		found := map[string]string{}
		for i := range list.Items {
			found[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
		return found
	}
	imported := func(ctx context.Context, from *management, name string, workload *management) *clusterv1.Cluster {
		GinkgoHelper()
		cluster := from.Create(ctx, "team-a", name, workload.ControlPlane)
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, from, cluster) }).Should(HaveLen(1))
		Eventually(from.K(ctx).Object(cluster)).Should(HaveField("Finalizers", ContainElement(apart.Finalizer)))
		return cluster
	}

	for _, how := range []state{refused, swallowed} {
		It("is left alone while it is cut off, and caught up with afterwards: "+string(how), func(ctx SpecContext) {
			doomed := imported(ctx, east, "doomed-"+string(how), west)
			rancher.settle(ctx, east)
			before := versions(ctx)

			toEast.set(how)
			Expect(east.Client.Delete(ctx, doomed)).To(Succeed())
			late := east.Create(ctx, "team-a", "late-"+string(how), west.ControlPlane)
			Eventually(engaged("east")).WithTimeout(noticed).Should(BeZero())
			Expect(rancher.lastNote(ctx, "east", "Unreachable")()).To(ContainSubstring("stay as they are"))

			By("delaying nobody else")
			other := west.Create(ctx, "team-b", "other-"+string(how), east.ControlPlane)
			Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, other) }).WithTimeout(noticed).Should(HaveLen(1))
			Expect(engaged("west")()).To(BeEquivalentTo(1))
			Expect(versions(ctx)).To(Equal(before))
			Expect(west.Client.Delete(ctx, other)).To(Succeed())

			By("doing what happened meanwhile")
			toEast.set(joined)
			Eventually(func() []managementv3.Cluster { return rancher.records(ctx, east, late) }).Should(HaveLen(1))
			Eventually(func() []managementv3.Cluster { return rancher.records(ctx, east, doomed) }).Should(BeEmpty())
			Eventually(east.K(ctx).Get(doomed)).Should(Satisfy(apierrors.IsNotFound))
			Eventually(engaged("east")).Should(BeEquivalentTo(1))
			record := rancher.records(ctx, east, first)
			Expect(record).To(HaveLen(1))
			Expect(before).To(HaveKey(record[0].Name))
			Expect(east.Client.Delete(ctx, late)).To(Succeed())
			Eventually(func() []managementv3.Cluster { return rancher.records(ctx, east, late) }).Should(BeEmpty())
		})
	}

	It("is left alone while its account may do nothing, and caught up with afterwards", func(ctx SpecContext) {
		rancher.settle(ctx, east)
		before := versions(ctx)
		bindings := &rbacv1.ClusterRoleBindingList{}
		Expect(east.Client.List(ctx, bindings)).To(Succeed())
		bindings.Items = slices.DeleteFunc(bindings.Items, func(b rbacv1.ClusterRoleBinding) bool {
			return !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Name == "archelon-hub" })
		})
		Expect(bindings.Items).NotTo(BeEmpty())
		for i := range bindings.Items {
			Expect(east.Client.Delete(ctx, &bindings.Items[i])).To(Succeed())
		}
		toEast.set(refused) // Who watches already is not asked again before the watch ends.
		toEast.set(joined)
		Eventually(rancher.reasons(ctx, "east")).WithTimeout(noticed).Should(ContainElement("Forbidden"))
		Eventually(engaged("east")).Should(BeZero())
		late := east.Create(ctx, "team-a", "late-forbidden", west.ControlPlane)
		Consistently(func() map[string]string { return versions(ctx) }).Should(Equal(before))
		Expect(engaged("west")()).To(BeEquivalentTo(1))

		for i := range bindings.Items {
			again := &rbacv1.ClusterRoleBinding{RoleRef: bindings.Items[i].RoleRef, Subjects: bindings.Items[i].Subjects}
			again.Name = bindings.Items[i].Name
			Expect(east.Client.Create(ctx, again)).To(Succeed())
		}
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, east, late) }).Should(HaveLen(1))
		Eventually(engaged("east")).Should(BeEquivalentTo(1))
		Expect(east.Client.Delete(ctx, late)).To(Succeed())
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, east, late) }).Should(BeEmpty())
	})

	It("has all released that is held in it when the hub is uninstalled, and nothing before it answers", func(ctx SpecContext) {
		other := imported(ctx, west, "other", east)
		stop()
		toEast.set(refused)
		Expect(rancher.uninstall(ctx, 8*time.Second)).To(MatchError(And(
			ContainSubstring("management cluster east: Unreachable"), ContainSubstring("delete its Secret"),
		)))
		Expect(west.K(ctx).Object(other)()).To(HaveField("Finalizers", ContainElement(apart.Finalizer)))

		toEast.set(joined)
		Expect(rancher.uninstall(ctx, time.Minute)).To(Succeed())
		for from, cluster := range map[*management]*clusterv1.Cluster{east: first, west: other} {
			Expect(from.K(ctx).Object(cluster)()).To(HaveField("Finalizers", Not(ContainElement(apart.Finalizer))))
			Expect(rancher.records(ctx, from, cluster)).To(HaveExactElements(And(
				HaveField("Finalizers", Not(ContainElement(apart.Finalizer))), HaveField("DeletionTimestamp", BeNil()),
			)))
		}
		leases := &coordinationv1.LeaseList{}
		Expect(rancher.Client.List(ctx, leases, client.InNamespace(system))).To(Succeed())
		Expect(leases.Items).To(BeEmpty())
		Expect(forbidden(rancher.Management, uninstaller)).To(BeEmpty())
	})
})

// uninstaller is the account of the chart's hook.
const uninstaller = "system:serviceaccount:archelon-system:archelon.uninstall"

// uninstall is what the hook of the chart does.
func (h *hub) uninstall(ctx context.Context, timeout time.Duration) error {
	GinkgoHelper()
	config, err := h.Management.ServiceAccountConfig(ctx, system, "archelon.uninstall")
	Expect(err).NotTo(HaveOccurred())
	opts := uninstall.NewOptions()
	opts.Instance, opts.InstanceNamespace, opts.ManagementClustersNamespace, opts.Timeout = "archelon", system, system, timeout
	return uninstall.Run(ctx, config, opts, GinkgoWriter)
}

// forbidden returns what a user may not do and has tried.
func forbidden(plane *env.ControlPlane, user string) []string {
	GinkgoHelper()
	events, err := plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	var refused []string
	for _, e := range events {
		if e.User.Username == user && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden {
			refused = append(refused, e.Verb+" "+e.RequestURI)
		}
	}
	return refused
}

// settle waits until nothing is written any more to the Rancher clusters of a management cluster: Rancher and
// its agent have come to an end.
func (h *hub) settle(ctx context.Context, of *management) {
	GinkgoHelper()
	last, since := "", time.Now()
	Eventually(func() time.Duration {
		list := &managementv3.ClusterList{}
		Expect(h.Client.List(ctx, list, client.MatchingLabels{apart.OriginLabel: of.UID})).To(Succeed())
		var now []string
		for i := range list.Items {
			now = append(now, list.Items[i].Name+list.Items[i].ResourceVersion)
		}
		if said := strings.Join(now, " "); said != last {
			last, since = said, time.Now()
		}
		return time.Since(since)
	}).Should(BeNumerically(">", time.Second))
}

// lastNote returns what the last Event of a reason says of a registration.
func (h *hub) lastNote(ctx context.Context, name, reason string) func() string {
	return func() string {
		note := ""
		for _, event := range h.eventsOf(ctx, name) {
			if event.Reason == reason {
				note = event.Note
			}
		}
		return note
	}
}
