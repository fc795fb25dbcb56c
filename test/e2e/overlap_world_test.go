package e2e

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// overlap is two instances, and a namespace with a cluster that both may claim.
type overlap struct {
	*fixture
	servers   *workloadserver.Server
	instances [2]stage.Instance
	strategy  string
	tenant    string
	cluster   *clusterv1.Cluster
	token     string // reads metrics
}

func (o *overlap) begin(ctx context.Context, strategy string) {
	GinkgoHelper()
	o.strategy = strategy
	o.tenant = o.Namespace(ctx, nil)
	o.cluster = o.connectable(ctx, "shared")
	DeferCleanup(func(ctx context.Context) { o.forget(ctx, 0); o.forget(ctx, 1) })
}

// end deletes the clusters, with an instance that lets them go.
func (o *overlap) end(ctx context.Context) {
	GinkgoHelper()
	m := o.launch(ctx, 0)
	o.awaitReady(ctx, m)
	list := &clusterv1.ClusterList{}
	Expect(o.Client.List(ctx, list, client.InNamespace(o.tenant))).To(Succeed())
	for i := range list.Items {
		Expect(o.Client.Delete(ctx, &list.Items[i])).To(Succeed())
	}
	Eventually(o.NothingOfRancher(ctx)).WithTimeout(2 * patience).Should(BeEmpty())
	Expect(m.Stop()).To(Succeed())
}

// connectable creates a CAPI cluster with a workload cluster of its own.
func (o *overlap) connectable(ctx context.Context, name string) *clusterv1.Cluster {
	GinkgoHelper()
	id := o.tenant + "-" + name
	kubeconfig, err := o.servers.Kubeconfig(id)
	Expect(err).NotTo(HaveOccurred())
	Expect(o.Rancher.AddWorkload(id, o.servers.Config(id))).To(Succeed())
	DeferCleanup(o.Rancher.RemoveWorkload, id)
	return o.ClusterWith(ctx, o.tenant, name, kubeconfig, importing.Selected)
}

// launch starts an instance.
func (o *overlap) launch(ctx context.Context, i int, args ...string) *stage.Manager {
	GinkgoHelper()
	args = slices.Concat([]string{"-v=1", importing.Gate(o.strategy)}, quickLease, args)
	m, err := o.StartInstance(context.WithoutCancel(ctx), o.instances[i], manager, GinkgoWriter, args...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		m.Kill()
		Expect(m.Logs()).NotTo(ContainSubstring("DATA RACE"))
	})
	return m
}

func (o *overlap) awaitReady(ctx context.Context, m *stage.Manager) {
	GinkgoHelper()
	Eventually(m.Ready).WithContext(ctx).WithTimeout(2 * patience).Should(Succeed())
}

func (o *overlap) metricsOf(ctx context.Context, m *stage.Manager) string {
	_, body, err := scrape(ctx, m.Metrics, o.token)
	if err != nil {
		return err.Error() // It may not listen yet.
	}
	return body
}

func (o *overlap) name(i int) string { return o.instances[i].ID() }

// worker returns who stands on the cluster.
func (o *overlap) worker(ctx context.Context) func() string {
	return func() string { return importing.Current(ctx, o.Client, o.cluster).GetAnnotations()[instanceKey] }
}

// expectInTurn asserts that the instances wrote one after the other, in this order, and none between the writes of
// another one. The API server logs a write after it has answered, so the last one can be missing for a moment.
func (o *overlap) expectInTurn(order ...int) {
	GinkgoHelper()
	Eventually(o.turns).Should(Equal(order))
}

// turns returns which instances wrote one after the other.
func (o *overlap) turns() []int {
	GinkgoHelper()
	var turns []int
	for _, write := range writesTo(o.Management, o.cluster.CreationTimestamp.Time, o.instances[0].User(), o.instances[1].User()) {
		if write.ResponseStatus != nil && write.ResponseStatus.Code >= 400 {
			continue
		}
		i := slices.IndexFunc(o.instances[:], func(i stage.Instance) bool { return i.User() == write.User.Username })
		if len(turns) == 0 || turns[len(turns)-1] != i {
			turns = append(turns, i)
		}
	}
	return turns
}

func (o *overlap) forget(ctx context.Context, i int) { o.unregister(ctx, o.instances[i]) }

// unregister ends the registration of an instance, as its uninstallation does.
func (f *fixture) unregister(ctx context.Context, instance stage.Instance) {
	GinkgoHelper()
	lease := &coordinationv1.Lease{ObjectMeta: objectMeta(stage.SystemNamespace, instance.Name+"-leader-election")}
	Expect(client.IgnoreNotFound(f.Client.Delete(ctx, lease))).To(Succeed())
}

// leaseEvents returns what is said about the Lease of an instance.
func (o *overlap) leaseEvents(ctx context.Context, i int) func() []string {
	return func() []string {
		list := &corev1.EventList{}
		if err := o.Client.List(ctx, list, client.InNamespace(stage.SystemNamespace)); err != nil {
			return []string{err.Error()}
		}
		var said []string
		for _, event := range list.Items {
			if event.InvolvedObject.Name == o.instances[i].Name+"-leader-election" {
				said = append(said, event.Reason+": "+event.Message)
			}
		}
		return said
	}
}

// writesTo returns the requests of users since a time that change something about CAPI clusters
// or records, in their order.
func writesTo(plane *env.ControlPlane, since time.Time, users ...string) []auditv1.Event {
	GinkgoHelper()
	events, err := plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	events = slices.DeleteFunc(events, func(e auditv1.Event) bool {
		return !slices.Contains(users, e.User.Username) || e.RequestReceivedTimestamp.Time.Before(since) || e.ObjectRef == nil ||
			e.ObjectRef.Resource != "clusters" || !slices.Contains([]string{"create", "patch", "update", "delete"}, e.Verb)
	})
	slices.SortFunc(events, func(a, b auditv1.Event) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time)
	})
	return events
}

func (o *overlap) record(ctx context.Context) client.Object {
	GinkgoHelper()
	records := o.Look(ctx).Records(o.strategy, o.cluster)
	Expect(records).To(HaveLen(1))
	return records[0]
}

// expectSame asserts that the cluster has the record that it had.
func (o *overlap) expectSame(ctx context.Context, record client.Object) {
	GinkgoHelper()
	now := o.record(ctx)
	Expect(now.GetUID()).To(Equal(record.GetUID()))
	Expect(now.GetDeletionTimestamp()).To(BeNil())
}

func (o *overlap) expectImported(ctx context.Context) {
	GinkgoHelper()
	Eventually(o.Reason(ctx, o.cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
}

// madeUp is about a tenant who writes a Lease like that of an instance that has been there for a year,
// and claims everything, and says of a cluster that this instance works on it. Leases in the namespace
// of a tenant are not believed.
func (o *overlap) madeUp(ctx context.Context) {
	long := metav1.NewMicroTime(time.Now().AddDate(-1, 0, 0))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.tenant, Name: "fake-leader-election",
			Labels: map[string]string{instanceKey: "fake"}, Annotations: map[string]string{"archelon.io/scope": "*"},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("fake"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &long, RenewTime: &long},
	}
	Expect(o.Client.Create(ctx, lease)).To(Succeed())
	o.Patch(ctx, importing.Current(ctx, o.Client, o.cluster), func(c client.Object) { importing.SetAnnotation(c, instanceKey, o.tenant+"/fake") })
	m := o.launch(ctx, 0)
	o.awaitReady(ctx, m)
	o.expectImported(ctx)
	Expect(o.worker(ctx)()).To(Equal(o.name(0)))
	Expect(o.Client.Delete(ctx, o.cluster)).To(Succeed())
	Eventually(o.K(ctx).Get(o.cluster)).Should(Satisfy(apierrors.IsNotFound))
	Expect(o.Client.Delete(ctx, lease)).To(Succeed())
	Expect(m.Stop()).To(Succeed())
}

// expectNoFight asserts that nobody wrote to a cluster again that another user had taken over.
func expectNoFight(plane *env.ControlPlane, since time.Time, users ...string) {
	GinkgoHelper()
	turns := map[string][]string{}
	for _, now := range writesTo(plane, since, users...) {
		if now.ResponseStatus != nil && now.ResponseStatus.Code >= 400 {
			continue
		}
		key := now.ObjectRef.APIGroup + "/" + now.ObjectRef.Namespace + "/" + now.ObjectRef.Name
		before := turns[key]
		if len(before) > 0 && before[len(before)-1] == now.User.Username {
			continue
		}
		Expect(before).NotTo(ContainElement(now.User.Username), "%s %s", now.Verb, now.RequestURI)
		turns[key] = append(before, now.User.Username)
	}
}

// expectLawfulUsers asserts that no instance was refused anything.
func expectLawfulUsers(plane *env.ControlPlane, since time.Time, instances []stage.Instance) {
	GinkgoHelper()
	events, err := plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	for _, i := range instances {
		Expect(importing.Listing(slices.DeleteFunc(slices.Clone(events), func(e auditv1.Event) bool {
			return e.User.Username != i.User() || e.RequestReceivedTimestamp.Time.Before(since) || e.ResponseStatus == nil || e.ResponseStatus.Code != 403
		}))).To(BeEmpty(), i.Name)
	}
}
