package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/hostclaim/baremetal"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/test/env"
)

// How the controller of claims is measured.
const (
	claimTeams, claimPools = 50, 10 // namespaces of claims, and of hosts
	claimConcurrency       = 16
	claimTimeout           = 10 * time.Minute
	// claimGrowth is how much more a claim may cost among many than among few.
	claimGrowth = 1.5
	claimUser   = "archelon-bench"
)

// claimSizes say how much is measured.
type claimSizes struct {
	few, many int
	// delay is how old caches are, quiet how long waiting claims are watched.
	delay, quiet time.Duration
}

func defaultClaimSizes() claimSizes {
	return claimSizes{few: 100, many: 1000, delay: 250 * time.Millisecond, quiet: 30 * time.Second}
}

// claimRun is what some claims cost, from the start of the controller until all have a host and nothing happens.
type claimRun struct {
	claims     int
	took       time.Duration
	cpu, apis  float64 // seconds of this process, and of the API server
	requests   int64   // but for watches and Events
	reconciles int64
	audit      bindings
	others     float64 // share of the machine that others used
	waiting    waitingClaims
}

// waitingClaims are what claims cost that get no host, as many as have one.
type waitingClaims struct {
	requests int64         // until they all say so
	quiet    time.Duration // how long they were watched then
	asked    int64         // meanwhile, everything but watches
	ran      int64         // reconciles meanwhile
}

// hostClaims measures what a HostClaim costs among few and among many, and holds what
// docs/development/performance.md promises.
func hostClaims(ctx context.Context, sizes claimSizes, out, progress io.Writer) ([]claimRun, error) {
	var runs []claimRun
	for _, claims := range []int{sizes.few, sizes.many} {
		_, _ = fmt.Fprintf(progress, "%d claims on %d hosts\n", claims, claims)
		run, err := runClaims(ctx, claims, sizes)
		if err != nil {
			return runs, fmt.Errorf("%d claims: %w", claims, err)
		}
		runs = append(runs, run)
	}
	_, _ = fmt.Fprintf(out, "\nHostClaims of %d namespaces, a host for each, %d workers, caches that are %s old\n", claimTeams, claimConcurrency, sizes.delay)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "claims\ttime\tCPU each\tCPU of the API server each\trequests each\treconciles each\thosts taken\tby others\twaiting: requests each\tthen")
	for _, r := range runs {
		n := float64(r.claims)
		_, _ = fmt.Fprintf(w, "%d\t%.1f s\t%.2f ms\t%.2f ms\t%.2f\t%.2f\t%d\t%.0f %%\t%.2f\t%d requests, %d reconciles in %s\n",
			r.claims, r.took.Seconds(), 1000*r.cpu/n, 1000*r.apis/n, float64(r.requests)/n, float64(r.reconciles)/n, r.audit.taken, 100*r.others,
			float64(r.waiting.requests)/n, r.waiting.asked, r.waiting.ran, r.waiting.quiet)
	}
	_ = w.Flush()
	return runs, nil
}

// claimBounds are what is promised.
func claimBounds(runs []claimRun) []bound {
	few, many := runs[0], runs[1]
	grown := func(name string, of func(claimRun) float64) bound {
		each := func(r claimRun) float64 { return of(r) / float64(r.claims) }
		return bound{fmt.Sprintf("%s of a claim, %d by %d", name, many.claims, few.claims), by(each(many), each(few)), claimGrowth}
	}
	bounds := []bound{
		grown("requests", func(r claimRun) float64 { return float64(r.requests) }),
		grown("reconciles", func(r claimRun) float64 { return float64(r.reconciles) }),
		grown("CPU time", func(r claimRun) float64 { return r.cpu }),
		grown("CPU time of the API server", func(r claimRun) float64 { return r.apis }),
		grown("requests until it says that it waits", func(r claimRun) float64 { return float64(r.waiting.requests) }),
	}
	if max(few.others, many.others) <= calmMachine {
		bounds = append(bounds, grown("time", func(r claimRun) float64 { return r.took.Seconds() }))
	}
	for _, r := range runs {
		of := func(name string) string { return fmt.Sprintf("%d claims: %s", r.claims, name) }
		bounds = append(bounds,
			bound{of("hosts that one claim has had, beyond the first"), float64(r.audit.second), 0},
			bound{of("claims that one host was given to, beyond the first"), float64(r.audit.shared), 0},
			bound{of("claims without a host"), float64(r.claims - r.audit.claims), 0},
			bound{of("requests while as many wait"), float64(r.waiting.asked), 0},
			bound{of("reconciles while as many wait"), float64(r.waiting.ran), 0},
		)
	}
	return bounds
}

// checkClaims writes whether the promises hold, and returns errBounds unless all do.
func checkClaims(runs []claimRun, out io.Writer) error {
	var err error
	_, _ = fmt.Fprintln(out)
	for _, b := range claimBounds(runs) {
		_, _ = fmt.Fprintln(out, b)
		if !b.holds() {
			err = errBounds
		}
	}
	return err
}

// claimWorld is an API server with hosts and claims.
type claimWorld struct {
	counter

	plane *env.ControlPlane
	admin client.Client
	sizes claimSizes
	n     int
}

// runClaims measures on an API server of its own.
func runClaims(ctx context.Context, n int, sizes claimSizes) (r claimRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	crds, err := env.HostClaimCRDs(ctx)
	if err != nil {
		return r, err
	}
	plane, err := env.Start(ctx, env.Options{Name: "claims", CRDs: crds, Audit: true, AuditUsers: []string{claimUser}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	known, err := scheme.New()
	if err != nil {
		return r, err
	}
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	w := &claimWorld{plane: plane, sizes: sizes, n: n}
	if w.admin, err = client.New(config, client.Options{Scheme: known}); err != nil {
		return r, err
	}
	if err := w.fill(ctx); err != nil {
		return r, err
	}
	if err := w.createClaims(ctx, "has"); err != nil {
		return r, err
	}
	if r, err = w.measure(ctx); err != nil {
		return r, err
	}
	r.audit, err = w.audited()
	return r, err
}

// fill creates hosts that are free, and policies that open them to all teams.
func (w *claimWorld) fill(ctx context.Context) error {
	namespaces := func(kind string, count int) error {
		for i := range count {
			if err := w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", kind, i)}}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := errors.Join(namespaces("team", claimTeams), namespaces("pool", claimPools)); err != nil {
		return fmt.Errorf("creating namespaces: %w", err)
	}
	for i := range claimPools {
		policy := &metal3v1.HostDeployPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("pool-%d", i), Name: "teams"},
			Spec:       metal3v1.HostDeployPolicySpec{HostClaimNamespaces: &metal3v1.HostClaimNamespaces{NameMatches: "team-.*"}},
		}
		if err := w.admin.Create(ctx, policy); err != nil {
			return fmt.Errorf("creating a policy: %w", err)
		}
	}
	for i := range w.n {
		if err := w.createHost(ctx, fmt.Sprintf("pool-%d", i%claimPools), fmt.Sprintf("host-%d", i)); err != nil {
			return fmt.Errorf("creating a host: %w", err)
		}
	}
	return nil
}

func (w *claimWorld) createHost(ctx context.Context, namespace, name string) error {
	host := &bmov1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"size": "medium"}},
		Spec:       bmov1.BareMetalHostSpec{BMC: bmov1.BMCDetails{Address: "redfish://bmc.example/" + name}, BootMACAddress: "52:54:00:01:00:05"},
	}
	if err := w.admin.Create(ctx, host); err != nil {
		return err
	}
	host.Status = bmov1.BareMetalHostStatus{
		OperationalStatus: bmov1.OperationalStatusOK, Provisioning: bmov1.ProvisionStatus{State: bmov1.StateAvailable},
		HardwareDetails: &bmov1.HardwareDetails{Hostname: name, NIC: []bmov1.NIC{{Name: "ens3", MAC: "52:54:00:01:00:05", IP: "192.168.1.1"}}},
	}
	return w.admin.Status().Update(ctx, host)
}

// createClaims creates as many claims as there are hosts.
func (w *claimWorld) createClaims(ctx context.Context, name string) error {
	for i := range w.n {
		claim := &metal3v1.HostClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", i%claimTeams), Name: fmt.Sprintf("%s-%d", name, i)},
			Spec: metal3v1.HostClaimSpec{
				Kind: metal3v1.KindBareMetal, HostSelector: metal3v1.HostSelector{MatchLabels: map[string]string{"size": "medium"}},
			},
		}
		if err := w.admin.Create(ctx, claim); err != nil {
			return fmt.Errorf("creating a claim: %w", err)
		}
	}
	return nil
}

// measure runs the controller as internal/setup wires it.
func (w *claimWorld) measure(ctx context.Context) (r claimRun, err error) {
	mgr, own, err := w.manager()
	if err != nil {
		return r, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	reconciler := &baremetal.Reconciler{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder(baremetal.ControllerName)}
	if err := reconciler.SetupWithManager(running, mgr, baremetal.Options{Concurrency: claimConcurrency, Own: own}); err != nil {
		return r, err
	}
	runtime.GC() // What came before is not what is measured.
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	// How long it takes to fill caches is not what is measured. If that fails, so does what reads from them.
	mgr.GetCache().WaitForCacheSync(ctx)
	own.WaitForCacheSync(ctx)
	if r, err = w.bind(ctx, mgr.GetCache()); err == nil {
		r.waiting, err = w.wait(ctx, mgr.GetCache())
	}
	stop()
	return r, errors.Join(err, <-ended)
}

// bind waits until all claims have a host, and there is nothing to do.
func (w *claimWorld) bind(ctx context.Context, known client.Reader) (r claimRun, err error) {
	earlier, err := measure()
	if err != nil {
		return r, err
	}
	began, ran := time.Now(), reconciles()
	if err := await(ctx, known, metav1.ConditionTrue, w.n); err != nil {
		return r, err
	}
	if _, err := w.settle(ctx); err != nil {
		return r, err
	}
	now, err := measure()
	if err != nil {
		return r, err
	}
	spent, others := now.since(earlier)
	return claimRun{
		claims: w.n, took: time.Unix(0, w.last.Load()).Sub(began), others: others,
		cpu: spent["bench"].CPUSeconds, apis: spent["kube-apiserver"].CPUSeconds,
		requests: w.all() - w.events.Load(), reconciles: reconciles() - ran,
	}, nil
}

// await waits until the controller knows of so many claims that they have a host, or that they have none.
func await(ctx context.Context, known client.Reader, status metav1.ConditionStatus, claims int) error {
	const look = 50 * time.Millisecond
	for {
		list, count := &metal3v1.HostClaimList{}, 0
		if err := known.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("counting claims: %w", err)
		}
		for i := range list.Items {
			is := hostclaim.ConditionOf(&list.Items[i], metal3v1.AssociatedCondition)
			if is.Status == status && is.Reason != metal3v1.BindingReason {
				count++
			}
		}
		if count == claims {
			return nil
		}
		if err := pause(ctx, look); err != nil {
			return fmt.Errorf("%d claims of %d are %s: %w", count, claims, status, err)
		}
	}
}

// wait adds claims for which there is no host, and watches them when they all say so.
func (w *claimWorld) wait(ctx context.Context, known client.Reader) (found waitingClaims, err error) {
	before := w.all() - w.events.Load()
	if err := w.createClaims(ctx, "waits"); err != nil {
		return found, err
	}
	if err := await(ctx, known, metav1.ConditionFalse, w.n); err != nil {
		return found, err
	}
	if _, err := w.settle(ctx); err != nil {
		return found, err
	}
	found = waitingClaims{requests: w.all() - w.events.Load() - before, quiet: w.sizes.quiet}
	asked, ran := w.all(), reconciles()
	if err := pause(ctx, w.sizes.quiet); err != nil {
		return found, err
	}
	found.asked, found.ran = w.all()-asked, reconciles()-ran
	return found, nil
}

// manager returns one whose caches are late, and the controller's own cache.
func (w *claimWorld) manager() (ctrl.Manager, cache.Cache, error) {
	config, err := w.plane.User(claimUser, "system:masters")
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	config.Wrap(w.counting)
	config.Wrap(delaying(w.sizes.delay))
	shared, own := cache.Options{ByObject: map[client.Object]cache.ByObject{}}, cache.Options{ByObject: map[client.Object]cache.ByObject{}}
	for _, watch := range baremetal.Controller("host-claim", nil).Watches(shard.Scope{}) {
		if watch.Own {
			own.ByObject[watch.Object] = watch.By
		} else {
			shared.ByObject[watch.Object] = watch.By
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: w.admin.Scheme(), Cache: shared, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, nil, err
	}
	own.Scheme, own.Mapper, own.HTTPClient = w.admin.Scheme(), mgr.GetRESTMapper(), mgr.GetHTTPClient()
	ownCache, err := cache.New(config, own)
	if err != nil {
		return nil, nil, err
	}
	return mgr, ownCache, mgr.Add(ownCache)
}
