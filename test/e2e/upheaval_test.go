package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
)

// upheaval is a release of the chart on kind, two settled clusters with agents that are Pods, and imports under way.
type upheaval struct {
	releases
	release helm.Release
	settled []*clusterv1.Cluster
	before  map[string]string // records of the settled ones
	waves   int
}

// What happens to machines and Pods of a management cluster while imports are under way. Each import ends connected,
// with one record, and the settled clusters keep theirs.
var _ = Describe("Upheavals", Label("kind-only"), Ordered, ContinueOnFailure, func() {
	u := &upheaval{}
	JustAfterEach(func(ctx context.Context) { u.describePods(ctx) })
	BeforeAll(func(ctx context.Context) {
		u.start(ctx)
		u.release = u.releases.release(ctx, "archelon", map[string]any{
			"features": map[string]any{"managementv3-cluster": map[string]any{"enabled": true}},
		})
		u.install(ctx, u.release)
		var lanes []importing.Lane
		for i := range kindStage.World().Workloads {
			l := u.StartLane(ctx, env.Options{Name: fmt.Sprintf("settled-%d", i)})
			lanes = append(lanes, l)
			u.settled = append(u.settled, u.ClusterIn(ctx, l, watch1, fmt.Sprintf("settled-%d", i), importing.Selected))
		}
		u.expectImported(ctx, u.settled...)
		u.before = u.records(ctx)
		Expect(u.before).To(HaveLen(2))
		// Rancher applies its agent once more. While that is rolled there is a moment without a connection.
		for i, cluster := range u.settled {
			Eventually(func() int { return u.Rancher.Reapplies(u.id(cluster)) }).Should(Equal(1))
			Eventually(func(g Gomega) {
				agent := &appsv1.Deployment{}
				g.Expect(lanes[i].Client.Get(ctx, client.ObjectKey{Namespace: importing.AgentNamespace, Name: importing.AgentDeployment}, agent)).To(Succeed())
				g.Expect(agent.Status.ObservedGeneration).To(Equal(agent.Generation))
				g.Expect([]int32{agent.Status.UpdatedReplicas, agent.Status.AvailableReplicas, agent.Status.Replicas}).To(HaveEach(BeEquivalentTo(1)))
				_, connected := u.Rancher.Connected(u.id(cluster))
				g.Expect(connected).To(BeTrue())
			}).Should(Succeed())
		}
	})

	It("an upgrade of the chart, and a rollback, cost no connection", func(ctx context.Context) {
		changed := u.release
		changed.Values = with(u.release.Values, map[string]any{"log": map[string]any{"level": 1}, "import": map[string]any{"concurrency": 3}})
		lost := u.watchConnections(ctx, u.settled)
		u.meanwhile(ctx, func() { Expect(u.helm.Upgrade(ctx, changed)).To(Succeed()) })
		u.meanwhile(ctx, func() { Expect(u.helm.Rollback(ctx, u.release, 0)).To(Succeed()) })
		Expect(lost()).To(BeEmpty())
		u.expectLawful(u.release)
	})

	It("the leader is killed, and another one goes on", func(ctx context.Context) {
		lost := u.watchConnections(ctx, u.settled)
		identity, pod := u.leader(ctx)
		u.meanwhile(ctx, func() {
			Expect(u.node.Kill(pod)).To(Succeed())
			// The other replica, or the same Pod's next container if that is back when the Lease runs out.
			Eventually(func() string { next, _ := u.leader(ctx); return next }).ShouldNot(Or(BeEmpty(), Equal(identity)))
		})
		Expect(lost()).To(BeEmpty())
	})

	It("all Pods are killed at once, and then there are none for a while", func(ctx context.Context) {
		u.meanwhile(ctx, func() {
			Expect(u.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(u.release.Namespace), client.GracePeriodSeconds(0))).To(Succeed())
		})
		u.meanwhile(ctx, func() {
			u.scale(ctx, 0)
			Eventually(func() []corev1.Pod { return u.pods(ctx) }).Should(BeEmpty())
			u.scale(ctx, 2)
		})
	})

	It("Rancher's Pod is killed", func(ctx context.Context) {
		u.meanwhile(ctx, func() {
			Expect(u.Client.DeleteAllOf(
				ctx, &corev1.Pod{}, client.InNamespace(importing.AgentNamespace), client.MatchingLabels{"app": "rancher"}, client.GracePeriodSeconds(0),
			)).To(Succeed())
			Eventually(u.RancherReady).WithContext(ctx).ShouldNot(Succeed())
		})
	})

	It("the node of a workload cluster restarts, and its agent connects again", func(ctx context.Context) {
		u.meanwhile(ctx, func() {
			Expect(kindStage.World().Workloads[0].Restart(ctx)).To(Succeed())
			Eventually(func() bool {
				_, connected := u.Rancher.Connected(u.id(u.settled[0]))
				return connected
			}).Should(BeTrue())
		})
	})

	It("the node of a workload cluster restarts that is imported once more at that time, after Rancher's clean-up", func(ctx context.Context) {
		cluster := u.settled[0]
		name := client.ObjectKeyFromObject(cluster).String()
		old := u.before[name]
		delete(u.before, name)
		u.Choose(ctx, importing.Current(ctx, u.Client, cluster), "false")
		Eventually(u.Reason(ctx, cluster)).Should(Equal("False/NotSelected"))
		u.Choose(ctx, importing.Current(ctx, u.Client, cluster), "true")
		u.meanwhile(ctx, func() { Expect(kindStage.World().Workloads[0].Restart(ctx)).To(Succeed()) })
		u.before[name] = u.records(ctx)[name]
		Expect(u.before[name]).NotTo(Equal(old))
		Expect(strings.Count(u.before[name], ";")).To(Equal(1), u.before[name])
	})

	It("the node of the management cluster restarts", func(ctx context.Context) {
		u.meanwhile(ctx, func() {
			Expect(kindStage.World().Management.Restart(ctx)).To(Succeed())
		})
	})

	AfterAll(func(ctx context.Context) {
		for _, cluster := range u.settled {
			u.drop(ctx, cluster)
		}
		Eventually(u.NothingOfRancher(ctx)).Should(BeEmpty())
		Expect(u.helm.Uninstall(ctx, u.release)).To(Succeed())
		Expect(u.held(ctx)).To(BeEmpty())
	})
})

// meanwhile does something while imports are under way: some have a record and wait for Rancher to fill in
// its registration, others begin afterwards. All get connected, with one record each; the settled clusters
// have the records that they had.
func (u *upheaval) meanwhile(ctx context.Context, do func()) {
	GinkgoHelper()
	u.waves++
	var wave []*clusterv1.Cluster
	begin := func(from, to int) {
		for i := from; i < to; i++ {
			wave = append(wave, u.light(ctx, []string{watch1, watch2, watch3}[i%3], fmt.Sprintf("wave-%d-%d", u.waves, i), importing.Selected))
		}
	}
	Expect(u.Rancher.HoldTokens(ctx, true)).To(Succeed())
	begin(0, 5)
	for _, cluster := range wave {
		Eventually(u.Reason(ctx, cluster)).Should(Equal("False/WaitingForRancher"))
	}
	do()
	Eventually(u.RancherReady).WithContext(ctx).Should(Succeed())
	// A Rancher that was restarted has done so already.
	Expect(u.Rancher.HoldTokens(ctx, false)).To(Succeed())
	begin(5, 8)
	// Light workload clusters are in the memory of Rancher's Pod. One that loses its agent before the first contact,
	// of which nothing in the management cluster tells, is looked at again 30 seconds after the installation, a
	// minute after that, and so on.
	for _, cluster := range append(wave, u.settled...) {
		Eventually(u.Reason(ctx, cluster)).WithTimeout(time.Minute+patience).Should(Equal("True/Imported"), client.ObjectKeyFromObject(cluster).String())
	}
	records := u.records(ctx)
	for _, cluster := range wave {
		Expect(strings.Count(records[client.ObjectKeyFromObject(cluster).String()], ";")).To(Equal(1), "%s has %v", cluster.Name, records)
	}
	for name, record := range u.before {
		Expect(records).To(HaveKeyWithValue(name, record))
	}
	for _, cluster := range wave {
		Expect(u.Client.Delete(ctx, cluster)).To(Succeed())
	}
	for _, cluster := range wave {
		Eventually(u.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	}
}

// id returns the name of the v3 Cluster of a settled cluster.
func (u *upheaval) id(cluster *clusterv1.Cluster) string {
	GinkgoHelper()
	fields := strings.Fields(u.before[client.ObjectKeyFromObject(cluster).String()]) // strategy, name, UID
	Expect(fields).To(HaveLen(3))
	return fields[1]
}

// leader returns who holds the Lease of the release, and the Pod that it runs in.
func (u *upheaval) leader(ctx context.Context) (identity string, pod types.NamespacedName) {
	leases := &coordinationv1.LeaseList{}
	if err := u.Client.List(ctx, leases, client.InNamespace(u.release.Namespace)); err != nil {
		return "", types.NamespacedName{}
	}
	for _, lease := range leases.Items {
		for _, pod := range u.pods(ctx) {
			if holder := lease.Spec.HolderIdentity; holder != nil && strings.HasPrefix(*holder, pod.Name) {
				return *holder, client.ObjectKeyFromObject(&pod)
			}
		}
	}
	return "", types.NamespacedName{}
}

// pods returns the Pods of the manager.
func (u *upheaval) pods(ctx context.Context) []corev1.Pod {
	list := &corev1.PodList{}
	if err := u.Client.List(ctx, list, client.InNamespace(u.release.Namespace)); err != nil {
		return nil
	}
	return list.Items
}

func (u *upheaval) scale(ctx context.Context, replicas int32) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{ObjectMeta: objectMeta(u.release.Namespace, u.release.Name)}
	u.Patch(ctx, importing.Current(ctx, u.Client, deployment), func(o client.Object) {
		o.(*appsv1.Deployment).Spec.Replicas = &replicas //nolint:forcetypeassert // it is the one above
	})
}
