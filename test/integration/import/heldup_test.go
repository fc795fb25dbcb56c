package import_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
)

// heldUp is about everything that could hold up a deletion, with a manager that stays up.
func (d *deletion) heldUp(strategy string) {
	var (
		f         *fixture
		namespace string
		long      = importing.LongUnless(strategy == "v3")
	)
	BeforeEach(func(ctx context.Context) {
		f = d.fixture
		namespace = d.tenant(ctx, strategy)
	})
	blackHole := func() []byte {
		GinkgoHelper()
		kubeconfig, err := d.servers.BlackHole("nowhere")
		Expect(err).NotTo(HaveOccurred())
		return kubeconfig
	}
	connected := func(ctx context.Context, name string) *clusterv1.Cluster {
		GinkgoHelper()
		cluster := f.ClusterIn(ctx, d.lanes[0], namespace, name, importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		return cluster
	}
	remove := func(ctx context.Context, object client.Object) {
		GinkgoHelper()
		Expect(f.Client.Delete(ctx, object)).To(Succeed())
	}

	It("ends when the record was made and never registered", long, func(ctx context.Context) {
		Expect(f.Rancher.HoldTokens(ctx, true)).To(Succeed())
		DeferCleanup(f.Rancher.HoldTokens, false)
		var trials []*trial
		for i, side := range []string{capiSide, rancherSide} {
			t := &trial{cell: cell{side: side, label: labelKept, workload: blackHoled}, strategy: strategy}
			t.cluster = f.ClusterIn(ctx, d.lanes[i], namespace, fmt.Sprintf("unregistered-%d", i), importing.Selected)
			trials = append(trials, t)
		}
		note := f.incomplete(ctx, trials)
		for _, t := range trials {
			Eventually(f.Reason(ctx, t.cluster)).Should(Equal("False/WaitingForRancher"))
			Eventually(func() string { note(); return t.internal }).ShouldNot(BeEmpty())
			f.end(ctx, t)
		}
		d.expectFinished(ctx, trials)
	})

	It("ends at whatever moment of an import it begins", Label("long"), func(ctx context.Context) {
		const clusters = 12
		var made []*clusterv1.Cluster
		for i := range clusters {
			cluster := f.ClusterWith(ctx, namespace, fmt.Sprintf("young-%02d", i), blackHole(), importing.Selected)
			made = append(made, cluster)
			if i%3 == 1 { // A third of them is claimed and a third has a record by then.
				Eventually(func() []string { return importing.Current(ctx, f.Client, cluster).Finalizers }).WithPolling(time.Millisecond).ShouldNot(BeEmpty())
			}
			if i%3 == 2 {
				Eventually(func() []client.Object { return f.Look(ctx).Records(strategy, cluster) }).WithPolling(time.Millisecond).ShouldNot(BeEmpty())
			}
			remove(ctx, cluster)
		}
		for _, cluster := range made {
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		}
		Eventually(f.NothingOfRancher(ctx)).Should(BeEmpty())
		Consistently(f.NothingOfRancher(ctx)).Should(BeEmpty())
	})

	It("ends when the namespace is deleted with all that is in it", long, func(ctx context.Context) {
		cluster := connected(ctx, "tenant")
		other := f.ClusterWith(ctx, namespace, "unreachable", blackHole(), importing.Selected)
		Eventually(func() []client.Object { return f.Look(ctx).Records(strategy, other) }).Should(HaveLen(1))
		remove(ctx, importing.NamespaceOf(namespace))
		Eventually(f.K(ctx).Get(importing.NamespaceOf(namespace))).WithTimeout(2 * patience).Should(Satisfy(apierrors.IsNotFound))
		Expect(f.K(ctx).Get(cluster)()).To(Satisfy(apierrors.IsNotFound))
		Expect(f.K(ctx).Get(other)()).To(Satisfy(apierrors.IsNotFound))
	})

	It("lets the CAPI cluster go while Rancher is down, and the record when it is up again", Label("long"), func(ctx context.Context) {
		cluster := connected(ctx, "alone")
		kept := f.ClusterWith(ctx, namespace, "kept", blackHole(), importing.Selected)
		Eventually(func() []client.Object { return f.Look(ctx).Records(strategy, kept) }).Should(HaveLen(1))
		f.Rancher.Down()
		DeferCleanup(f.Rancher.Up)
		remove(ctx, cluster)
		remove(ctx, f.Look(ctx).Records(strategy, kept)[0])
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		Eventually(f.Reason(ctx, kept)).Should(Equal("False/RemovedInRancher"))
		Expect(f.Look(ctx).V3).NotTo(BeEmpty(), "Rancher's part is undone while it is down")
		Expect(f.Rancher.Up(ctx)).To(Succeed())
		Eventually(f.NothingOfRancher(ctx)).Should(BeEmpty())
		remove(ctx, kept)
		Eventually(f.K(ctx).Get(kept)).Should(Satisfy(apierrors.IsNotFound))

		// Rancher cleans up through a session, and there is none while it is down.
		d.scour(ctx, namespace, d.lanes[0])
	})

	It("lets the CAPI cluster go while Rancher's webhook does not answer, and the record when it does", long, func(ctx context.Context) {
		cluster := f.ClusterWith(ctx, namespace, "unasked", blackHole(), importing.Selected)
		Eventually(func() []client.Object { return f.Look(ctx).Records(strategy, cluster) }).Should(HaveLen(1))
		record := f.Look(ctx).Records(strategy, cluster)[0]
		Eventually(func() []string { return importing.Current(ctx, f.Client, record).GetFinalizers() }).ShouldNot(HaveLen(1), "Rancher has seen it")
		back := f.webhookAway(ctx, record)
		remove(ctx, cluster)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/Deleting"))
		Expect(importing.Current(ctx, f.Client, record).GetDeletionTimestamp()).To(BeNil(), "what Rancher cannot finish it begins again and again")
		Eventually(f.K(ctx).Get(cluster)).WithTimeout(2 * patience).Should(Satisfy(apierrors.IsNotFound))
		Consistently(func() []string { return importing.Current(ctx, f.Client, record).GetFinalizers() }).Should(ContainElement(importing.Finalizer))
		back()
		Eventually(f.K(ctx).Get(record)).Should(Satisfy(apierrors.IsNotFound))
		Eventually(f.NothingOfRancher(ctx)).Should(BeEmpty())
	})

	It("does not wait for foreign finalizers on the record, and leaves them", long, func(ctx context.Context) {
		cluster := connected(ctx, "held")
		record := f.Look(ctx).Records(strategy, cluster)[0]
		f.Patch(ctx, record, func(o client.Object) {
			controllerutil.AddFinalizer(o, foreignFinalizer)
			controllerutil.AddFinalizer(o, turtlesFinalizer)
		})
		remove(ctx, cluster)
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		kept := []string{foreignFinalizer, turtlesFinalizer}
		if f.Values["turtles"] != nil {
			kept = kept[:1] // Who adopts what Turtles made takes its finalizer off what was made here.
		}
		Consistently(func() []string { return importing.Current(ctx, f.Client, record).GetFinalizers() }).Should(ContainElements(kept))
		Expect(record.GetDeletionTimestamp()).NotTo(BeNil())
		Expect(record.GetFinalizers()).NotTo(ContainElement(importing.Finalizer))
		f.letGo(ctx, record)
	})

	It("does not touch the finalizer of Turtles on the CAPI cluster", Label("long"), func(ctx context.Context) {
		cluster := connected(ctx, "shared")
		f.Patch(ctx, cluster, func(o client.Object) { controllerutil.AddFinalizer(o, turtlesFinalizer) })
		remove(ctx, cluster)
		Eventually(func() []string { return importing.Current(ctx, f.Client, cluster).Finalizers }).Should(Equal([]string{turtlesFinalizer}))
		Eventually(f.NothingOfRancher(ctx)).Should(BeEmpty())
		Consistently(func() []string { return importing.Current(ctx, f.Client, cluster).Finalizers }).Should(Equal([]string{turtlesFinalizer}))
		f.letGo(ctx, cluster)
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	})

	It("keeps a namesake apart from the record that is still going", long, func(ctx context.Context) {
		first := connected(ctx, "phoenix")
		old := f.Look(ctx).Records(strategy, first)[0]
		f.Patch(ctx, old, func(o client.Object) { controllerutil.AddFinalizer(o, foreignFinalizer) })
		remove(ctx, first)
		Eventually(f.K(ctx).Get(first)).Should(Satisfy(apierrors.IsNotFound))
		remove(ctx, builder.KubeconfigSecret(namespace, first.Name, nil))

		// It is another cluster with a workload cluster of its own.
		second := f.ClusterIn(ctx, d.lanes[1], namespace, "phoenix", importing.Selected)
		Expect(second.UID).NotTo(Equal(first.UID))
		Eventually(f.Reason(ctx, second)).Should(Equal("True/Imported"))
		records := f.Look(ctx).Records(strategy, second)
		Expect(records).To(HaveLen(1))
		Expect(importing.Current(ctx, f.Client, old).GetDeletionTimestamp()).NotTo(BeNil())

		f.letGo(ctx, old)
		Eventually(f.K(ctx).Get(old)).Should(Satisfy(apierrors.IsNotFound))
		Consistently(f.Reason(ctx, second)).Should(Equal("True/Imported"))
		after := f.Look(ctx).Records(strategy, second)
		Expect(after).To(HaveLen(1))
		Expect(after[0].GetUID()).To(Equal(records[0].GetUID()))
		Expect(after[0].GetFinalizers()).To(ContainElement(importing.Finalizer))
		remove(ctx, second)
		Eventually(f.K(ctx).Get(second)).Should(Satisfy(apierrors.IsNotFound))
	})

	It("leaves a paused cluster alone until it is resumed", Label("long"), func(ctx context.Context) {
		cluster := connected(ctx, "paused")
		pause := func(paused bool) {
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(client.Object) { cluster.Spec.Paused = &paused })
		}
		pause(true)
		remove(ctx, cluster)
		Eventually(func() *metav1.Time { return importing.Current(ctx, f.Client, cluster).DeletionTimestamp }).ShouldNot(BeNil())
		Consistently(func() []string { return importing.Current(ctx, f.Client, cluster).Finalizers }).Should(ContainElement(importing.Finalizer))
		records := f.Look(ctx).Records(strategy, cluster)
		Expect(records).To(HaveLen(1))
		Expect(records[0].GetDeletionTimestamp()).To(BeNil())
		pause(false)
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	})

	It("ends when the workload cluster is lost after it was connected", Label("long"), func(ctx context.Context) {
		cluster := connected(ctx, "lost")
		kept := f.ClusterIn(ctx, d.lanes[1], namespace, "lost-too", importing.Selected)
		Eventually(f.Reason(ctx, kept)).Should(Equal("True/Imported"))
		for _, l := range d.lanes {
			f.Rancher.RemoveWorkload(l.Name)
			Expect(l.Plane.Suspend()).To(Succeed())
			DeferCleanup(l.Plane.Resume)
		}
		Eventually(f.Reason(ctx, kept)).Should(Equal("False/WorkloadTimeout"))
		remove(ctx, cluster)
		remove(ctx, f.Look(ctx).Records(strategy, kept)[0])
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		Eventually(f.Reason(ctx, kept)).Should(Equal("False/RemovedInRancher"))
		Eventually(f.NothingOfRancher(ctx)).Should(BeEmpty())
		remove(ctx, kept)
		Eventually(f.K(ctx).Get(kept)).Should(Satisfy(apierrors.IsNotFound))
		for _, l := range d.lanes {
			Expect(l.Plane.Resume()).To(Succeed())
			Expect(f.Rancher.AddWorkload(l.Name, l.Plane.Config)).To(Succeed())
			d.scour(ctx, namespace, l)
		}
	})
}

// scour gives Rancher an occasion to clean up in a workload cluster that it could not reach: a new
// import takes the agent over.
func (d *deletion) scour(ctx context.Context, namespace string, l importing.Lane) {
	GinkgoHelper()
	cluster := d.ClusterIn(ctx, l, namespace, l.Name, importing.Selected)
	Eventually(d.Reason(ctx, cluster)).Should(Equal("True/Imported"))
	Expect(d.Client.Delete(ctx, cluster)).To(Succeed())
	Eventually(l.Left).WithContext(ctx).Should(BeEmpty())
}

// webhookAway registers what rancher-webhook leaves behind that has stopped: nobody can be asked about changes of
// Rancher clusters, nor about deletions of v1 ones, and so they are refused. It returns when that is so for the
// record. What it returns ends it.
func (f *fixture) webhookAway(ctx context.Context, record client.Object) (back func()) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Name: "rancher-away"}
	nobody := admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}
	rule := func(group, version string, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{"clusters"},
		}}}
	}
	configurations := []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "v3.rancher-away.example.com", ClientConfig: nobody, AdmissionReviewVersions: []string{"v1"},
			FailurePolicy: new(admissionregistrationv1.Fail), SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			Rules: rule("management.cattle.io", "v3", admissionregistrationv1.Create, admissionregistrationv1.Update),
		}}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "v1.rancher-away.example.com", ClientConfig: nobody, AdmissionReviewVersions: []string{"v1"},
			FailurePolicy: new(admissionregistrationv1.Fail), SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			Rules: rule("provisioning.cattle.io", "v1", admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete),
		}}},
	}
	for _, configuration := range configurations {
		Expect(f.Client.Create(ctx, configuration)).To(Succeed())
		DeferCleanup(func(ctx context.Context) error { return client.IgnoreNotFound(f.Client.Delete(ctx, configuration)) })
	}
	Eventually(func() error {
		probe, _ := record.DeepCopyObject().(client.Object)
		return f.Client.Patch(ctx, probe, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/probe":"1"}}}`)), client.DryRunAll)
	}).Should(MatchError(apierrors.IsInternalError, "an internal error"))
	return func() {
		GinkgoHelper()
		for _, configuration := range configurations {
			Expect(f.Client.Delete(ctx, configuration)).To(Succeed())
		}
	}
}
