package import_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

const (
	turtlesFinalizer = "capicluster.turtles.cattle.io"
	foreignFinalizer = "example.com/hold"
)

// deletion is what the specs about deletion share: a stage with two real workload clusters, and as many
// light ones as are asked for.
type deletion struct {
	*fixture
	lanes   []importing.Lane
	servers *workloadserver.Server
	// limited has every spec start a manager of its own, which works in the namespace of the spec only.
	limited bool
	// scope is how managers that are started from now on are limited.
	scope []string
}

// Whatever state an import is in and whoever deletes it, nothing is left on either side.
var _ = Describe("Deletion", Ordered, func() {
	d := &deletion{}
	BeforeAll(func(ctx context.Context) {
		d.fixture = newFixture(ctx, stage.Options{Name: "deletion", Audit: true, Rancher: func(o *rancher.Options) {
			o.Logger = GinkgoLogr
			o.Timings.Cleanup = 100 * time.Millisecond
		}})
		d.lanes = []importing.Lane{d.Lane, d.StartLane(ctx, env.Options{Name: "deletion-workload-2"})}
		d.servers = importing.StartLights(ctx)
	})
	AfterEach(func(ctx context.Context) {
		Eventually(d.NothingOfRancher(ctx)).Should(BeEmpty())
		for _, l := range d.lanes {
			Eventually(l.Left).WithContext(ctx).Should(BeEmpty())
		}
	})

	Describe("with a manager for all namespaces", Ordered, func() {
		BeforeAll(func() { d.limited, d.scope = false, nil })
		d.specs()
	})
	Describe("with a manager for one namespace", Label("long"), Ordered, func() {
		BeforeAll(func() { d.limited = true })
		d.specs()
	})

	AfterAll(func() { expectLawfulUnlessTerminating(d.fixture) })
})

// specs are the same whatever the managers are limited to.
func (d *deletion) specs() {
	for _, strategy := range importing.Strategies() {
		Describe("of "+strategy+" records with a manager that stays up", nightlyUnless(strategy == "v3"), Ordered, func() {
			BeforeAll(func(ctx context.Context) {
				if !d.limited {
					d.launch(ctx, strategy)
				}
			})
			matrix(func(ctx context.Context, cells []cell) {
				trials := d.setUp(ctx, d.tenant(ctx, strategy), strategy, d.servers, cells)
				d.endAll(ctx, trials)
				d.expectFinished(ctx, trials)
			})
			Describe("held up", func() { d.heldUp(strategy) })
		})
		Describe("of "+strategy+" records with a manager that is killed", Label("nightly"), importing.LongUnless(strategy == "v3"), Ordered, func() {
			matrix(func(ctx context.Context, cells []cell) {
				trials := d.launchAndSetUp(ctx, strategy, cells)
				d.endWhileKilled(ctx, trials)
				d.expectFinished(ctx, trials)
			})
			Describe("coming back", Label("long"), func() { d.comingBack(strategy) })
		})
	}
}

// launch starts a manager that may be killed.
func (d *deletion) launch(ctx context.Context, strategy string) {
	GinkgoHelper()
	d.run(ctx, append([]string{importing.Gate(strategy)}, d.scope...)...)
}

// tenant makes a namespace that a manager works in: the one that is up, or one for this namespace only.
func (d *deletion) tenant(ctx context.Context, strategy string) string {
	GinkgoHelper()
	namespace := d.Namespace(ctx, nil)
	if d.limited {
		d.scope = []string{"--namespace=" + namespace}
		d.launch(ctx, strategy)
	}
	return namespace
}

// launchAndSetUp starts a manager that is to be killed and sets up trials for it.
func (d *deletion) launchAndSetUp(ctx context.Context, strategy string, cells []cell) []*trial {
	GinkgoHelper()
	if !d.limited {
		d.launch(ctx, strategy)
	}
	return d.setUp(ctx, d.tenant(ctx, strategy), strategy, d.servers, cells)
}

// matrix makes specs of the cells, of which some take their time.
func matrix(spec func(context.Context, []cell)) {
	few, some, others := cells()
	It(fmt.Sprintf("ends in %d cells that begin with: %s", len(few), few[0]), func(ctx context.Context) { spec(ctx, few) })
	It(fmt.Sprintf("ends in %d cells that begin with: %s", len(some), some[0]), Label("nightly"), func(ctx context.Context) { spec(ctx, some) })
	It(fmt.Sprintf("ends in %d cells that begin with: %s", len(others), others[0]), Label("long"), func(ctx context.Context) { spec(ctx, others) })
}

// endAll deletes everything that the cells say, with their circumstances.
func (f *fixture) endAll(ctx context.Context, trials []*trial) {
	GinkgoHelper()
	eachAtOnce(len(trials), func(i int) {
		f.prepare(ctx, trials[i])
		f.end(ctx, trials[i])
	})
}

// endWhileKilled kills the manager twice: when half of the deletions are asked for, and again when its successor is in
// the middle of what it has found.
func (d *deletion) endWhileKilled(ctx context.Context, trials []*trial) {
	GinkgoHelper()
	strategy := trials[0].strategy
	half := len(trials) / 2
	d.endAll(ctx, trials[:half])
	d.Manager.Kill()
	d.endAll(ctx, trials[half:])
	held := func() int {
		count := 0
		for _, cluster := range d.Look(ctx).Clusters {
			if controllerutil.ContainsFinalizer(&cluster, importing.Finalizer) {
				count++
			}
		}
		return count
	}
	before := held()
	Expect(before).To(BeNumerically(">=", len(trials)-half), "a dead manager leaves its finalizers")
	d.launch(ctx, strategy)
	Eventually(held).WithPolling(time.Millisecond).Should(BeNumerically("<", before))
	d.Manager.Kill()
	d.launch(ctx, strategy)
}

// expectFinished waits for the end of all trials, and for no more than the end.
func (f *fixture) expectFinished(ctx context.Context, trials []*trial) {
	GinkgoHelper()
	Eventually(f.unfinished(ctx, trials)).WithTimeout(2 * patience).Should(BeEmpty())
	Eventually(f.NothingOfRancher(ctx)).Should(BeEmpty())
	Consistently(f.NothingOfRancher(ctx)).Should(BeEmpty())
	Expect(f.unfinished(ctx, trials)()).To(BeEmpty())
	f.sweep(ctx, trials)
}

// comingBack is about managers that come back as somebody else, or too late.
func (d *deletion) comingBack(strategy string) {
	long := importing.LongUnless(strategy == "v3")
	for _, side := range []string{capiSide, rancherSide} {
		It("ends when it was "+side+" and the gate is switched meanwhile", long, func(ctx context.Context) {
			trials := d.launchAndSetUp(ctx, strategy, []cell{
				{side, planeUp, labelKept, reachable}, {side, planeDown, labelKept, blackHoled},
				{side, planeUp, labelRemoved, reachable}, {side, planeUp, labelFalse, kubeconfigGone},
			})
			d.Manager.Kill()
			d.endAll(ctx, trials)
			d.launch(ctx, importing.OtherThan(strategy))
			d.expectFinished(ctx, trials)
		})
	}

	It("releases a record that is deleted when its CAPI cluster is gone", long, func(ctx context.Context) {
		trials := d.launchAndSetUp(ctx, strategy, []cell{{capiSide, planeUp, labelKept, reachable}})
		d.Manager.Kill()
		// Somebody in a hurry takes our finalizer off.
		d.end(ctx, trials[0])
		d.letGo(ctx, importing.Current(ctx, d.Client, trials[0].cluster))
		Expect(d.K(ctx).Get(trials[0].cluster)()).To(Satisfy(apierrors.IsNotFound))
		d.launch(ctx, strategy)
		// A v1 record is deleted by Kubernetes as well, with its owner.
		Expect(client.IgnoreNotFound(d.Client.Delete(ctx, trials[0].record))).To(Succeed())
		d.expectFinished(ctx, trials)
	})
}

// letGo takes all finalizers but Rancher's off an object.
func (f *fixture) letGo(ctx context.Context, object client.Object) {
	GinkgoHelper()
	f.Patch(ctx, importing.Current(ctx, f.Client, object), func(o client.Object) {
		for _, name := range []string{importing.Finalizer, foreignFinalizer, turtlesFinalizer} {
			controllerutil.RemoveFinalizer(o, name)
		}
	})
}

// expectLawfulUnlessTerminating asserts that the manager lacks no permission. Nobody may create anything, as an Event,
// in a namespace that is being deleted.
func expectLawfulUnlessTerminating(f *fixture) {
	GinkgoHelper()
	requests := f.Requests()
	Expect(requests).NotTo(BeEmpty())
	for _, request := range requests {
		if request.ResponseStatus.Code == 403 && !strings.Contains(request.ResponseStatus.Message, "because it is being terminated") {
			Expect(request).To(BeZero(), "%s %s", request.Verb, request.RequestURI)
		}
	}
}
