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
)

// heldUp is about everything that could hold up a deletion, with a manager that stays up.
func (d *deletion) heldUp(strategy string) {
	var (
		f         *fixture
		namespace string
		long      = longUnless(strategy == "v3")
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
		cluster := f.clusterIn(ctx, d.lanes[0], namespace, name, selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
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
			t.cluster = f.clusterIn(ctx, d.lanes[i], namespace, fmt.Sprintf("unregistered-%d", i), selected)
			trials = append(trials, t)
		}
		note := f.incomplete(ctx, trials)
		for _, t := range trials {
			Eventually(f.reason(ctx, t.cluster)).Should(Equal("False/WaitingForRancher"))
			Eventually(func() string { note(); return t.internal }).ShouldNot(BeEmpty())
			f.end(ctx, t)
		}
		d.expectFinished(ctx, trials)
	})

	It("ends at whatever moment of an import it begins", Label("long"), func(ctx context.Context) {
		const clusters = 12
		var made []*clusterv1.Cluster
		for i := range clusters {
			cluster := f.clusterWith(ctx, namespace, fmt.Sprintf("young-%02d", i), blackHole(), selected)
			made = append(made, cluster)
			if i%3 == 1 { // A third of them is claimed and a third has a record by then.
				Eventually(func() []string { return current(ctx, f, cluster).Finalizers }).WithPolling(time.Millisecond).ShouldNot(BeEmpty())
			}
			if i%3 == 2 {
				Eventually(func() []client.Object { return f.look(ctx).records(strategy, cluster) }).WithPolling(time.Millisecond).ShouldNot(BeEmpty())
			}
			remove(ctx, cluster)
		}
		for _, cluster := range made {
			Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		}
		Eventually(f.nothingOfRancher(ctx)).Should(BeEmpty())
		Consistently(f.nothingOfRancher(ctx)).Should(BeEmpty())
	})

	It("ends when the namespace is deleted with all that is in it", long, func(ctx context.Context) {
		cluster := connected(ctx, "tenant")
		other := f.clusterWith(ctx, namespace, "unreachable", blackHole(), selected)
		Eventually(func() []client.Object { return f.look(ctx).records(strategy, other) }).Should(HaveLen(1))
		remove(ctx, namespaceOf(namespace))
		Eventually(f.gone(ctx, namespaceOf(namespace))).WithTimeout(2 * patience).Should(BeTrue())
		Expect(f.gone(ctx, cluster)()).To(BeTrue())
		Expect(f.gone(ctx, other)()).To(BeTrue())
	})

	It("lets the CAPI cluster go while Rancher is down, and the record when it is up again", Label("long"), func(ctx context.Context) {
		cluster := connected(ctx, "alone")
		kept := f.clusterWith(ctx, namespace, "kept", blackHole(), selected)
		Eventually(func() []client.Object { return f.look(ctx).records(strategy, kept) }).Should(HaveLen(1))
		f.Rancher.Down()
		DeferCleanup(f.Rancher.Up)
		remove(ctx, cluster)
		remove(ctx, f.look(ctx).records(strategy, kept)[0])
		Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		Eventually(f.reason(ctx, kept)).Should(Equal("False/RemovedInRancher"))
		Expect(f.look(ctx).v3).NotTo(BeEmpty(), "Rancher's part is undone while it is down")
		Expect(f.Rancher.Up(ctx)).To(Succeed())
		Eventually(f.nothingOfRancher(ctx)).Should(BeEmpty())
		remove(ctx, kept)
		Eventually(f.gone(ctx, kept)).Should(BeTrue())

		// Rancher cleans up through a session, and there is none while it is down.
		d.scour(ctx, namespace, d.lanes[0])
	})

	It("lets the CAPI cluster go while Rancher's webhook does not answer, and the record when it does", long, func(ctx context.Context) {
		cluster := f.clusterWith(ctx, namespace, "unasked", blackHole(), selected)
		Eventually(func() []client.Object { return f.look(ctx).records(strategy, cluster) }).Should(HaveLen(1))
		record := f.look(ctx).records(strategy, cluster)[0]
		Eventually(func() []string { return current(ctx, f, record).GetFinalizers() }).ShouldNot(HaveLen(1), "Rancher has seen it")
		back := f.webhookAway(ctx, record)
		remove(ctx, cluster)
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/Deleting"))
		Expect(current(ctx, f, record).GetDeletionTimestamp()).To(BeNil(), "what Rancher cannot finish it begins again and again")
		Eventually(f.gone(ctx, cluster)).WithTimeout(2 * patience).Should(BeTrue())
		Consistently(func() []string { return current(ctx, f, record).GetFinalizers() }).Should(ContainElement(finalizer))
		back()
		Eventually(f.gone(ctx, record)).Should(BeTrue())
		Eventually(f.nothingOfRancher(ctx)).Should(BeEmpty())
	})

	It("does not wait for foreign finalizers on the record, and leaves them", long, func(ctx context.Context) {
		cluster := connected(ctx, "held")
		record := f.look(ctx).records(strategy, cluster)[0]
		f.patch(ctx, record, func(o client.Object) {
			controllerutil.AddFinalizer(o, foreignFinalizer)
			controllerutil.AddFinalizer(o, turtlesFinalizer)
		})
		remove(ctx, cluster)
		Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		kept := []string{foreignFinalizer, turtlesFinalizer}
		if f.Values["turtles"] != nil {
			kept = kept[:1] // Who adopts what Turtles made takes its finalizer off what was made here.
		}
		Consistently(func() []string { return current(ctx, f, record).GetFinalizers() }).Should(ContainElements(kept))
		Expect(record.GetDeletionTimestamp()).NotTo(BeNil())
		Expect(record.GetFinalizers()).NotTo(ContainElement(finalizer))
		f.letGo(ctx, record)
	})

	It("does not touch the finalizer of Turtles on the CAPI cluster", Label("long"), func(ctx context.Context) {
		cluster := connected(ctx, "shared")
		f.patch(ctx, cluster, func(o client.Object) { controllerutil.AddFinalizer(o, turtlesFinalizer) })
		remove(ctx, cluster)
		Eventually(func() []string { return current(ctx, f, cluster).Finalizers }).Should(Equal([]string{turtlesFinalizer}))
		Eventually(f.nothingOfRancher(ctx)).Should(BeEmpty())
		Consistently(func() []string { return current(ctx, f, cluster).Finalizers }).Should(Equal([]string{turtlesFinalizer}))
		f.letGo(ctx, cluster)
		Eventually(f.gone(ctx, cluster)).Should(BeTrue())
	})

	It("keeps a namesake apart from the record that is still going", long, func(ctx context.Context) {
		first := connected(ctx, "phoenix")
		old := f.look(ctx).records(strategy, first)[0]
		f.patch(ctx, old, func(o client.Object) { controllerutil.AddFinalizer(o, foreignFinalizer) })
		remove(ctx, first)
		Eventually(f.gone(ctx, first)).Should(BeTrue())
		remove(ctx, builder.KubeconfigSecret(namespace, first.Name, nil))

		// It is another cluster with a workload cluster of its own.
		second := f.clusterIn(ctx, d.lanes[1], namespace, "phoenix", selected)
		Expect(second.UID).NotTo(Equal(first.UID))
		Eventually(f.reason(ctx, second)).Should(Equal("True/Imported"))
		records := f.look(ctx).records(strategy, second)
		Expect(records).To(HaveLen(1))
		Expect(current(ctx, f, old).GetDeletionTimestamp()).NotTo(BeNil())

		f.letGo(ctx, old)
		Eventually(f.gone(ctx, old)).Should(BeTrue())
		Consistently(f.reason(ctx, second)).Should(Equal("True/Imported"))
		after := f.look(ctx).records(strategy, second)
		Expect(after).To(HaveLen(1))
		Expect(after[0].GetUID()).To(Equal(records[0].GetUID()))
		Expect(after[0].GetFinalizers()).To(ContainElement(finalizer))
		remove(ctx, second)
		Eventually(f.gone(ctx, second)).Should(BeTrue())
	})

	It("leaves a paused cluster alone until it is resumed", Label("long"), func(ctx context.Context) {
		cluster := connected(ctx, "paused")
		pause := func(paused bool) {
			f.patch(ctx, current(ctx, f, cluster), func(client.Object) { cluster.Spec.Paused = &paused })
		}
		pause(true)
		remove(ctx, cluster)
		Eventually(func() *metav1.Time { return current(ctx, f, cluster).DeletionTimestamp }).ShouldNot(BeNil())
		Consistently(func() []string { return current(ctx, f, cluster).Finalizers }).Should(ContainElement(finalizer))
		records := f.look(ctx).records(strategy, cluster)
		Expect(records).To(HaveLen(1))
		Expect(records[0].GetDeletionTimestamp()).To(BeNil())
		pause(false)
		Eventually(f.gone(ctx, cluster)).Should(BeTrue())
	})

	It("ends when the workload cluster is lost after it was connected", Label("long"), func(ctx context.Context) {
		cluster := connected(ctx, "lost")
		kept := f.clusterIn(ctx, d.lanes[1], namespace, "lost-too", selected)
		Eventually(f.reason(ctx, kept)).Should(Equal("True/Imported"))
		for _, l := range d.lanes {
			f.Rancher.RemoveWorkload(l.name)
			Expect(l.plane.Suspend()).To(Succeed())
			DeferCleanup(l.plane.Resume)
		}
		Eventually(f.reason(ctx, kept)).Should(Equal("False/WorkloadTimeout"))
		remove(ctx, cluster)
		remove(ctx, f.look(ctx).records(strategy, kept)[0])
		Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		Eventually(f.reason(ctx, kept)).Should(Equal("False/RemovedInRancher"))
		Eventually(f.nothingOfRancher(ctx)).Should(BeEmpty())
		remove(ctx, kept)
		Eventually(f.gone(ctx, kept)).Should(BeTrue())
		for _, l := range d.lanes {
			Expect(l.plane.Resume()).To(Succeed())
			Expect(f.Rancher.AddWorkload(l.name, l.plane.Config)).To(Succeed())
			d.scour(ctx, namespace, l)
		}
	})
}

// scour gives Rancher an occasion to clean up in a workload cluster that it could not reach: a new import takes the agent over.
func (d *deletion) scour(ctx context.Context, namespace string, l lane) {
	GinkgoHelper()
	cluster := d.clusterIn(ctx, l, namespace, l.name, selected)
	Eventually(d.reason(ctx, cluster)).Should(Equal("True/Imported"))
	Expect(d.Client.Delete(ctx, cluster)).To(Succeed())
	Eventually(l.left).WithContext(ctx).Should(BeEmpty())
}

// webhookAway registers what rancher-webhook leaves behind that has stopped: nobody can be asked about changes of Rancher clusters, nor about
// deletions of v1 ones, and so they are refused. It returns when that is so for the record. What it returns ends it.
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
