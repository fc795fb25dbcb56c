package e2e

import (
	"bytes"
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

const (
	instanceKey   = "archelon.io/instance"
	leaseDuration = 15 * time.Second
)

// quickLease makes it known early that an instance is gone, and not so early that one on a busy machine seems to be.
var quickLease = []string{"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=12s", "--leader-elect-retry-period=1s"}

// Two living instances never work on one cluster, however their scopes are configured.
var _ = Describe("Overlapping instances", Ordered, func() {
	o := &overlap{}
	BeforeAll(func(ctx context.Context) {
		o.fixture = newFixture(ctx, stage.Options{Name: "overlap", Audit: true, Rancher: func(r *rancher.Options) {
			r.Logger = GinkgoLogr
			r.Timings.Cleanup = 100 * time.Millisecond
		}})
		var err error
		o.servers, err = workloadserver.Start(context.WithoutCancel(ctx), func(workloadserver.Request) {})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(o.servers.Stop)
		o.token = o.metricsReader(ctx)
		for i := range o.instances {
			o.instances[i] = stage.Instance{Name: fmt.Sprintf("archelon%d", i+1)}
			Expect(o.Install(ctx, o.instances[i])).To(Succeed())
		}
	})
	for _, strategy := range importing.Strategies() {
		Describe("with "+strategy+" records", Ordered, importing.LongUnless(strategy == "v3"), func() {
			BeforeEach(func(ctx context.Context) { o.begin(ctx, strategy) })
			AfterEach(o.end)
			It("leave a namespace to the one that names it, also while that is away", o.dedicated)
			It("without flags wait for the older one, and for one that is frozen", o.flagless)
			It("do not leave a cluster behind that names one which is gone, when the other is uninstalled", Label("long"), o.uninstall)
			It("agree when they begin at the same time", Label("long"), o.simultaneous)
			It("are not held up by a Lease that a tenant made up", Label("long"), o.madeUp)
			It("let go of what they hold in a namespace that they exclude", Label("nightly"), o.excluding)
		})
	}
})

func (o *overlap) dedicated(ctx context.Context) {
	last := o.launch(ctx, 0)
	o.awaitReady(ctx, last)
	o.expectImported(ctx)
	Expect(o.worker(ctx)()).To(Equal(o.name(0)))
	record := o.record(ctx)

	dedicated := o.launch(ctx, 1, "--namespace="+o.tenant)
	Eventually(o.worker(ctx)).WithTimeout(2 * patience).Should(Equal(o.name(1)))
	o.expectSame(ctx, record)
	Eventually(func() string { return o.metricsOf(ctx, last) }).WithTimeout(patience).Should(And(
		ContainSubstring(fmt.Sprintf(`archelon_instance_info{instance=%q,scope="all namespaces but %s",watch_filter=""} 1`, o.name(0), o.tenant)),
		ContainSubstring(fmt.Sprintf(`archelon_instance_left_to_peer{peer=%q} 1`, o.name(1)))))
	Eventually(o.leaseEvents(ctx, 0)).Should(ContainElement(ContainSubstring("Instance " + o.name(1) + " has namespaces " + o.tenant)))
	other := o.connectable(ctx, "later")
	Eventually(o.Reason(ctx, other)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
	Expect(importing.Current(ctx, o.Client, other).GetAnnotations()).To(HaveKeyWithValue(instanceKey, o.name(1)))
	o.expectInTurn(0, 1)

	dedicated.Kill()
	killed := time.Now()
	Eventually(func() string { return o.metricsOf(ctx, last) }).WithTimeout(patience).Should(ContainSubstring("archelon_namespaces_unowned 1"))
	Expect(o.Client.Delete(ctx, other)).To(Succeed())
	Consistently(o.worker(ctx)).Should(Equal(o.name(1)))
	Expect(importing.Listing(writesTo(o.Management, killed, o.instances[0].User()))).To(BeEmpty(), "nothing dedicated is taken over")
	dedicated = o.launch(ctx, 1, "--namespace="+o.tenant)
	Eventually(o.K(ctx).Get(other)).WithTimeout(2 * patience).Should(Satisfy(apierrors.IsNotFound))
	Eventually(func() string { return o.metricsOf(ctx, last) }).WithTimeout(patience).Should(ContainSubstring("archelon_namespaces_unowned 0"))

	Expect(dedicated.Stop()).To(Succeed())
	o.forget(ctx, 1)
	Eventually(o.worker(ctx)).WithTimeout(2 * patience).Should(Equal(o.name(0)))
	o.expectSame(ctx, record)
	Expect(last.Stop()).To(Succeed())
}

func (o *overlap) flagless(ctx context.Context) {
	older := o.launch(ctx, 0)
	o.awaitReady(ctx, older)
	o.expectImported(ctx)
	record := o.record(ctx)
	younger := o.launch(ctx, 1)
	o.awaitReady(ctx, younger)
	Eventually(younger.Logs).Should(ContainSubstring("Instance " + o.name(0) + " has all namespaces"))
	Consistently(o.worker(ctx)).Should(Equal(o.name(0)))

	Expect(older.Freeze(true)).To(Succeed())
	Eventually(o.worker(ctx)).WithTimeout(2 * patience).Should(Equal(o.name(1)))
	Expect(older.Freeze(false)).To(Succeed())
	// It has the older Lease: it takes everything back when the other one has left, and not before.
	Eventually(o.worker(ctx)).WithTimeout(2 * patience).Should(Equal(o.name(0)))
	o.expectInTurn(0, 1, 0)
	o.expectSame(ctx, record)

	Expect(older.Stop()).To(Succeed())
	Eventually(o.worker(ctx)).WithTimeout(2 * patience).Should(Equal(o.name(1)))
	Expect(younger.Stop()).To(Succeed())
}

func (o *overlap) excluding(ctx context.Context) {
	m := o.launch(ctx, 0)
	o.awaitReady(ctx, m)
	o.expectImported(ctx)
	record := o.record(ctx)
	Expect(m.Stop()).To(Succeed())
	m = o.launch(ctx, 0, "--excluded-namespace="+o.tenant)
	Eventually(func() []string { return importing.Current(ctx, o.Client, o.cluster).GetFinalizers() }).
		WithTimeout(2 * patience).ShouldNot(ContainElement(importing.Finalizer))
	Expect(o.worker(ctx)()).To(BeEmpty())
	o.expectSame(ctx, record)
	Expect(m.Stop()).To(Succeed())
	// Whoever has it in its scope next goes on with it.
	m = o.launch(ctx, 0)
	Eventually(o.worker(ctx)).WithTimeout(2 * patience).Should(Equal(o.name(0)))
	o.expectSame(ctx, record)
	Expect(m.Stop()).To(Succeed())
}

func (o *overlap) uninstall(ctx context.Context) {
	first := o.launch(ctx, 0, "--namespace="+o.tenant)
	o.awaitReady(ctx, first)
	o.expectImported(ctx)
	pause := func(paused bool) {
		o.Patch(ctx, importing.Current(ctx, o.Client, o.cluster), func(client.Object) { o.cluster.Spec.Paused = &paused })
	}
	pause(true)
	// The other one is registered and does not run. Its uninstallation deletes the Lease.
	end := func() (string, error) {
		lease := &coordinationv1.Lease{ObjectMeta: objectMeta(stage.SystemNamespace, o.instances[1].Name+"-leader-election")}
		Expect(o.Client.Create(ctx, lease)).To(Succeed())
		opts := uninstall.NewOptions()
		opts.Namespaces, opts.Instance, opts.InstanceNamespace = []string{o.tenant}, o.instances[1].Name, o.instances[1].Namespace()
		opts.LeaderElectNamespace = stage.SystemNamespace
		opts.Timeout, opts.Yes = 2*patience, true
		out := &bytes.Buffer{}
		err := uninstall.Run(ctx, o.Management.Config, opts, out)
		return out.String(), err
	}

	By("one that lives and works on it")
	said, err := end()
	Expect(err).NotTo(HaveOccurred())
	Expect(said).To(ContainSubstring("Left to instance " + o.name(0) + ", which works on them: CAPI clusters " + client.ObjectKeyFromObject(o.cluster).String()))
	Expect(importing.Current(ctx, o.Client, o.cluster).Finalizers).To(ContainElement(importing.Finalizer))

	By("one that names the namespace and comes back to it")
	Expect(first.Stop()).To(Succeed())
	said, err = end()
	Expect(err).NotTo(HaveOccurred())
	Expect(said).To(ContainSubstring("Left to instance " + o.name(0)))
	Expect(importing.Current(ctx, o.Client, o.cluster).Finalizers).To(ContainElement(importing.Finalizer))

	By("one that is not registered any more")
	o.forget(ctx, 0)
	said, err = end()
	Expect(err).NotTo(HaveOccurred())
	Expect(said).To(ContainSubstring("Done: 1 CAPI clusters, 1 Rancher clusters"))
	Expect(importing.Current(ctx, o.Client, o.cluster).Finalizers).NotTo(ContainElement(importing.Finalizer))

	By("one that is installed later, and goes on")
	pause(false)
	first = o.launch(ctx, 0)
	Eventually(func() []string { return importing.Current(ctx, o.Client, o.cluster).Finalizers }).
		WithTimeout(2 * patience).Should(ContainElement(importing.Finalizer))
	Eventually(o.Reason(ctx, o.cluster)).Should(Equal("True/Imported"))
	Expect(first.Stop()).To(Succeed())
}

func (o *overlap) simultaneous(ctx context.Context) {
	managers := []*stage.Manager{o.launch(ctx, 0), o.launch(ctx, 1)}
	var more []*clusterv1.Cluster
	for i := range 6 {
		more = append(more, o.connectable(ctx, fmt.Sprintf("crowd-%d", i)))
	}
	for _, cluster := range append(more, o.cluster) {
		Eventually(o.Reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
		Expect(o.Look(ctx).Records(o.strategy, cluster)).To(HaveLen(1))
	}
	o.expectInTurn(0)
	for _, m := range managers {
		Expect(m.Stop()).To(Succeed())
	}
}
