package e2e

import (
	"bytes"
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/test/bench/workloadserver"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

const (
	instanceKey      = "archelon.io/instance"
	overlapCondition = "RancherImportScopeOverlap"
	leaseDuration    = 6 * time.Second
)

// quickLease makes it known early that an instance is gone.
var quickLease = []string{"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"}

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
	for _, strategy := range strategies() {
		Describe("with "+strategy+" records", Ordered, longUnless(strategy == "v3"), func() {
			BeforeEach(func(ctx context.Context) { o.begin(ctx, strategy) })
			AfterEach(o.end)
			It("leave a cluster to the first, which says so, until it stops", o.stop)
			It("leave a cluster to the first until it is gone for longer than its Lease", o.crash)
			It("are not spoken of any more when the cluster is un-imported", Label("long"), o.unimport)
			It("do not leave a paused cluster behind that names one which does not work on it, when the other is uninstalled", Label("long"), o.uninstall)
			It("agree when they begin at the same time", Label("long"), o.simultaneous)
			It("hand a namespace over by a restart", Label("long"), o.handOver)
			It("are not held up by a Lease that a tenant made up", Label("long"), o.madeUp)
			It("do not steal what the last resort does not know to be taken", Label("long"), o.lastResort)
		})
	}
})

func (o *overlap) stop(ctx context.Context) {
	first := o.launch(ctx, 0, "--namespace="+o.tenant)
	o.awaitReady(ctx, first)
	o.expectImported(ctx)
	Expect(o.worker(ctx)()).To(Equal(o.name(0)))
	record := o.record(ctx)

	second := o.launch(ctx, 1)
	Eventually(o.overlapNote(ctx)).WithTimeout(2 * patience).Should(And(HavePrefix("True/ScopesOverlap "), ContainSubstring(o.name(0)), ContainSubstring(o.name(1))))
	Eventually(func() []string { return o.notes(ctx, o.cluster) }).Should(ContainElement(And(ContainSubstring(o.name(0)), ContainSubstring(o.name(1)))))
	Eventually(func() string { return o.metricsOf(ctx, second) }).Should(
		MatchRegexp(`archelon_import_clusters_left_to_peer{peer="` + o.name(0) + `"} 1\b`))

	Expect(o.metricsOf(ctx, first)).To(ContainSubstring(fmt.Sprintf(`archelon_instance_info{instance=%q,scope="namespaces %s",watch_filter=""} 1`, o.name(0), o.tenant)))

	// New clusters and deletions belong to the first as well.
	other := o.connectable(ctx, "later")
	Eventually(o.reason(ctx, other)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
	Expect(o.Client.Delete(ctx, other)).To(Succeed())
	Eventually(o.gone(ctx, other)).Should(BeTrue())
	Expect(describe(o.writes(1))).To(BeEmpty(), "the second instance leaves clusters alone")

	Expect(first.Stop()).To(Succeed())
	Eventually(o.worker(ctx)).Should(Equal(o.name(1)))
	Eventually(o.overlapNote(ctx)).Should(BeEmpty())
	Expect(o.metricsOf(ctx, second)).NotTo(ContainSubstring(`archelon_import_clusters_left_to_peer{peer="` + o.name(0) + `"}`))
	o.expectSame(ctx, record)
	Expect(o.reason(ctx, o.cluster)()).To(Equal("True/Imported"))
	Expect(second.Stop()).To(Succeed())
}

func (o *overlap) unimport(ctx context.Context) {
	first := o.launch(ctx, 0, "--namespace="+o.tenant)
	o.awaitReady(ctx, first)
	o.expectImported(ctx)
	second := o.launch(ctx, 1)
	Eventually(o.overlapNote(ctx)).WithTimeout(2 * patience).Should(HavePrefix("True"))
	o.choose(ctx, current(ctx, o.fixture, o.cluster), "false")
	Eventually(o.reason(ctx, o.cluster)).WithTimeout(2 * patience).Should(Equal("False/NotSelected"))
	Eventually(o.overlapNote(ctx)).Should(BeEmpty())
	Expect(first.Stop()).To(Succeed())
	Expect(second.Stop()).To(Succeed())
}

func (o *overlap) uninstall(ctx context.Context) {
	first := o.launch(ctx, 0, "--namespace="+o.tenant)
	o.awaitReady(ctx, first)
	o.expectImported(ctx)
	pause := func(paused bool) {
		o.patch(ctx, current(ctx, o.fixture, o.cluster), func(client.Object) { o.cluster.Spec.Paused = &paused })
	}
	pause(true)
	end := func() (string, error) {
		opts := uninstall.NewOptions()
		opts.Namespaces, opts.Instance, opts.InstanceNamespace = []string{o.tenant}, o.instances[1].Name, o.instances[1].Namespace()
		opts.LeaderElectNamespace = stage.SystemNamespace
		opts.Timeout = 5 * time.Second
		out := &bytes.Buffer{}
		err := uninstall.Run(ctx, o.Management.Config, opts, out)
		return out.String(), err
	}

	By("one that lives and works on it")
	said, err := end()
	Expect(err).NotTo(HaveOccurred())
	Expect(said).To(ContainSubstring("Left to instance " + o.name(0) + ", which works on them: CAPI clusters " + client.ObjectKeyFromObject(o.cluster).String()))
	Expect(current(ctx, o.fixture, o.cluster).Finalizers).To(ContainElement(finalizer))

	By("one that has gone")
	Expect(first.Stop()).To(Succeed())
	_, err = end()
	Expect(err).To(MatchError(And(ContainSubstring(client.ObjectKeyFromObject(o.cluster).String()), ContainSubstring("held for instance "+o.name(0)))))
	Expect(current(ctx, o.fixture, o.cluster).Finalizers).To(ContainElement(finalizer))

	By("one that lives and works elsewhere")
	first = o.launch(ctx, 0, "--excluded-namespace="+o.tenant)
	o.awaitReady(ctx, first)
	_, err = end()
	Expect(err).To(MatchError(ContainSubstring("held for instance " + o.name(0))))
	Expect(first.Stop()).To(Succeed())

	By("a person who says that it is nobody's")
	o.patch(ctx, current(ctx, o.fixture, o.cluster), func(c client.Object) {
		annotations := c.GetAnnotations()
		delete(annotations, instanceKey)
		c.SetAnnotations(annotations)
	})
	said, err = end()
	Expect(err).NotTo(HaveOccurred())
	Expect(said).To(ContainSubstring("Done: 1 CAPI clusters, 1 Rancher clusters"))
	Expect(current(ctx, o.fixture, o.cluster).Finalizers).NotTo(ContainElement(finalizer))

	By("one that is installed later, and goes on")
	pause(false)
	first = o.launch(ctx, 0)
	Eventually(func() []string { return current(ctx, o.fixture, o.cluster).Finalizers }).WithTimeout(2 * patience).Should(ContainElement(finalizer))
	Eventually(o.reason(ctx, o.cluster)).Should(Equal("True/Imported"))
	Expect(first.Stop()).To(Succeed())
}

func (o *overlap) crash(ctx context.Context) {
	first := o.launch(ctx, 0)
	o.awaitReady(ctx, first)
	o.expectImported(ctx)
	record := o.record(ctx)
	second := o.launch(ctx, 1, "--namespace="+o.tenant)
	Eventually(o.overlapNote(ctx)).WithTimeout(2 * patience).Should(HavePrefix("True"))
	first.Kill()
	killed := time.Now()
	Eventually(o.worker(ctx)).WithTimeout(2 * patience).Should(Equal(o.name(1)))
	// The Lease was renewed at most a retry period before.
	Expect(time.Since(killed)).To(BeNumerically(">", leaseDuration-2*time.Second))
	o.expectSame(ctx, record)
	// The first comes back and is the second now.
	back := o.launch(ctx, 0)
	Eventually(o.overlapNote(ctx)).WithTimeout(2 * patience).Should(HavePrefix("True"))
	Consistently(o.worker(ctx)).Should(Equal(o.name(1)))
	o.expectNoFight()
	Expect(back.Stop()).To(Succeed())
	Expect(second.Stop()).To(Succeed())
}

func (o *overlap) simultaneous(ctx context.Context) {
	managers := []*stage.Manager{o.launch(ctx, 0), o.launch(ctx, 1)}
	var more []*clusterv1.Cluster
	for i := range 6 {
		more = append(more, o.connectable(ctx, fmt.Sprintf("crowd-%d", i)))
	}
	for _, cluster := range append(more, o.cluster) {
		Eventually(o.reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
		Expect(o.look(ctx).records(o.strategy, cluster)).To(HaveLen(1))
	}
	o.expectNoFight()
	for _, m := range managers {
		Expect(m.Stop()).To(Succeed())
	}
}

func (o *overlap) handOver(ctx context.Context) {
	from := o.launch(ctx, 0, "--namespace="+o.tenant)
	to := o.launch(ctx, 1, "--excluded-namespace="+o.tenant)
	o.awaitReady(ctx, from)
	o.awaitReady(ctx, to)
	o.expectImported(ctx)
	record := o.record(ctx)
	Expect(o.worker(ctx)()).To(Equal(o.name(0)))
	Expect(o.overlapNote(ctx)()).To(BeEmpty())
	// The new owner is told first: for a while both claim the namespace.
	Expect(to.Stop()).To(Succeed())
	to = o.launch(ctx, 1)
	o.awaitReady(ctx, to)
	Consistently(o.worker(ctx)).Should(Equal(o.name(0)))
	Expect(from.Stop()).To(Succeed())
	from = o.launch(ctx, 0, "--excluded-namespace="+o.tenant)
	Eventually(o.worker(ctx)).WithTimeout(2 * patience).Should(Equal(o.name(1)))
	o.awaitReady(ctx, from)
	Consistently(o.worker(ctx)).Should(Equal(o.name(1)))
	o.expectSame(ctx, record)
	Expect(o.Client.Delete(ctx, o.cluster)).To(Succeed())
	Eventually(o.gone(ctx, o.cluster)).Should(BeTrue())
	Expect(from.Stop()).To(Succeed())
	Expect(to.Stop()).To(Succeed())
}

func (o *overlap) lastResort(ctx context.Context) {
	dedicated := o.launch(ctx, 0, "--namespace="+o.tenant)
	o.awaitReady(ctx, dedicated)
	o.expectImported(ctx)
	record := o.record(ctx)
	last := o.launch(ctx, 1, "--excluded-namespace=another")
	o.awaitReady(ctx, last)
	Eventually(o.overlapNote(ctx)).WithTimeout(2 * patience).Should(ContainSubstring(o.name(1)))
	free := o.connectable(ctx, "new")
	Eventually(o.reason(ctx, free)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
	Consistently(o.worker(ctx)).Should(Equal(o.name(0)))
	Expect(describe(o.writes(1))).To(BeEmpty(), "the last resort leaves the clusters alone")
	o.expectSame(ctx, record)
	Expect(dedicated.Stop()).To(Succeed())
	Expect(last.Stop()).To(Succeed())
}
