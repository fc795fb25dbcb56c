package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
)

// servesClusters has this program play the workload clusters of a benchmark, so that their
// memory is not in the measurement.
const servesClusters = "CAPI_BENCHMARK_SERVES"

// served is the access to the cluster NAME.
type served struct {
	Host                string
	CAPEM, Cert, Secret []byte
}

// serveClusters serves until its input ends.
func serveClusters() {
	server, err := workloadserver.Start(context.Background(), func(workloadserver.Request) {})
	if err != nil {
		panic(err)
	}
	is := server.Config("NAME")
	if err := json.NewEncoder(os.Stdout).Encode(served{is.Host, is.CAData, is.CertData, is.KeyData}); err != nil {
		panic(err)
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // it ends with the benchmark
}

// reader is a controller that runs across the fleet. Of each cluster it receives the metadata of Namespaces.
type reader struct {
	manager mcmanager.Manager
	// asks has each reconcile ask the server, too; so many did, and so many failed.
	asks         atomic.Bool
	done, failed atomic.Int64
	seen         sync.Map
}

// every is how long the controller leaves a Namespace alone.
const every = 2 * time.Second

// newReader returns the controller and a function that runs it until a context ends.
func newReader(b *testing.B, f *fleet) (*reader, func(context.Context) error) {
	b.Helper()
	local, err := ctrl.NewManager(&rest.Config{Host: "https://" + knownAs}, ctrl.Options{
		MapperProvider: mapper, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		b.Fatal(err)
	}
	r := &reader{}
	if r.manager, err = mcmanager.WithMultiCluster(local, f.Provider, EndSources()); err != nil {
		b.Fatal(err)
	}
	err = mcbuilder.ControllerManagedBy(r.manager).Named("reader").For(&corev1.Namespace{}, mcbuilder.OnlyMetadata).
		WithOptions(controller.TypedOptions[mcreconcile.Request]{
			MaxConcurrentReconciles: 8, SkipNameValidation: new(true), UsePriorityQueue: new(false),
		}).
		Complete(r)
	if err != nil {
		b.Fatal(err)
	}
	return r, local.Start
}

// Reconcile implements reconcile.TypedReconciler.
func (r *reader) Reconcile(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	asks := r.asks.Load()
	err := r.read(ctx, request, asks)
	switch {
	case !asks || !r.asks.Load():
	case err == nil:
		r.done.Add(1)
	default:
		r.failed.Add(1)
	}
	return ctrl.Result{RequeueAfter: every}, err
}

func (r *reader) read(ctx context.Context, request mcreconcile.Request, asks bool) error {
	c, err := r.manager.GetCluster(ctx, request.ClusterName)
	if err != nil {
		return err
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.GetClient().Get(ctx, request.NamespacedName, found); err != nil {
		return err
	}
	r.seen.Store(request.ClusterName, true)
	if asks {
		return c.GetAPIReader().List(ctx, &corev1.NamespaceList{})
	}
	return nil
}

func (r *reader) reached() int {
	count := 0
	r.seen.Range(func(any, any) bool { count++; return true })
	return count
}

// BenchmarkFleet engages 1,000 clusters, of which each twentieth is a black hole, forbids everything, or refuses the
// credentials. Then all kubeconfigs are replaced while a controller works, and all clusters are disengaged.
//
//	go test -run '^$' -bench Fleet -benchtime 1x ./providers/capi
func BenchmarkFleet(b *testing.B) {
	for b.Loop() {
		benchmarkFleet(b, 1000)
	}
}

// What holds for a fleet.
const (
	mostKiB    = 250 // of a cluster with one watch of metadata
	mostWaited = 10  // seconds, by all together; a lock that is held while a black hole is asked makes thousands of it
)

func benchmarkFleet(b *testing.B, clusters int) {
	b.Helper()
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	f := unstarted(b, func(o *Options) { o.Timing = Timing{} })
	access := startClusters(b)
	forbids, refuses := newServer(b, "a"), newServer(b, "a")
	forbids.fail(func(*http.Request) int { return http.StatusForbidden })
	hole := blackHole(b)
	before := runtime.NumGoroutine()
	working, run := newReader(b, f)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- run(ctx) }()
	go func() { ended <- f.Start(ctx, working.manager) }()
	<-working.manager.Elected() // it has started

	goroutines, memory := resting(), resident(b)
	began := time.Now()
	var healthy []string
	for i := range clusters {
		name := fmt.Sprintf("cluster-%04d", i)
		switch i % 20 {
		case 0:
			f.access[name] = hole
		case 1:
			f.access[name] = forbids.access("a")
		case 2:
			f.access[name] = refuses.access("b")
		default:
			f.access[name] = access(name, "0")
			healthy = append(healthy, name)
		}
	}
	for name := range f.access {
		f.ensure(f.t.Context(), provisionedCluster(name))
	}
	wait(b, "all healthy clusters are reconciled", func() bool { return working.reached() == len(healthy) })
	b.ReportMetric(time.Since(began).Seconds(), "s-until-engaged")
	// Those that forbid everything have their watch, too, which is tried again and again.
	engaged := float64(len(healthy) + clusters/20)
	wait(b, "all clusters are engaged that answer", func() bool { return inState(f, Engaged, Degraded) == int(engaged) })
	each := float64(resident(b)-memory) / engaged
	b.ReportMetric(each, "KiB/cluster")
	if each > mostKiB {
		b.Errorf("a cluster takes %.0f KiB, and is to take %d at most", each, mostKiB)
	}
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/engaged, "goroutines/cluster")

	b.ReportMetric(rotateAll(b, f, working, access, healthy), "s-until-rotated")
	for name := range f.access {
		f.forget(nameOf(name))
	}
	wait(b, "all goroutines of the fleet end", func() bool { return runtime.NumGoroutine() <= goroutines })
	b.ReportMetric(float64(max(0, runtime.NumGoroutine()-goroutines)), "goroutines-left")
	locks := waited(b, "/providers/capi/")
	b.ReportMetric(locks, "s-waited-for-locks")
	b.ReportMetric(waited(b, "/multicluster-runtime@"), "s-waited-for-locks-of-multicluster-runtime")
	if locks > mostWaited {
		b.Errorf("locks of the provider were waited for %.1f seconds", locks)
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
	wait(b, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// inState returns how many clusters are in one of some states.
func inState(f *fleet, states ...State) int {
	count := 0
	for _, status := range f.Statuses() {
		if slices.Contains(states, status.State) {
			count++
		}
	}
	return count
}

// resting returns how many goroutines there are once nothing starts or ends any more.
func resting() int {
	for before := -1; ; {
		count := runtime.NumGoroutine()
		if count == before {
			return count
		}
		before = count
		<-time.After(time.Second)
	}
}

// waited returns for how many seconds locks were waited for, by all goroutines together, that code held whose path has
// this part, but for tests.
func waited(b *testing.B, path string) float64 {
	b.Helper()
	var profile strings.Builder
	if err := pprof.Lookup("mutex").WriteTo(&profile, 1); err != nil {
		b.Fatal(err)
	}
	var cyclesPerSecond, cycles, sum float64
	for line := range strings.Lines(profile.String()) {
		fields := strings.Fields(line)
		rate, isRate := strings.CutPrefix(strings.TrimSpace(line), "cycles/second=")
		switch {
		case isRate:
			cyclesPerSecond, _ = strconv.ParseFloat(rate, 64) // it is a number
		case len(fields) > 2 && fields[2] == "@":
			cycles, _ = strconv.ParseFloat(fields[0], 64) // it is a number
		case strings.HasPrefix(line, "#") && !strings.Contains(line, "/src/sync/") && !strings.Contains(line, "/src/internal/sync/"):
			// It is who held the lock; what follows called it.
			if strings.Contains(line, path) && !strings.Contains(line, "_test.go") {
				sum += cycles
			}
			cycles = 0
		}
	}
	return sum / cyclesPerSecond
}

// rotateAll replaces all kubeconfigs while a controller reads from all clusters.
func rotateAll(b *testing.B, f *fleet, working *reader, access func(name, token string) *rest.Config, names []string) float64 {
	b.Helper()
	working.asks.Store(true)
	wait(b, "the controller asks all clusters", func() bool { return working.done.Load() >= int64(len(names)) })
	began := time.Now()
	for _, name := range names {
		f.mu.Lock()
		f.access[name] = access(name, "1")
		f.mu.Unlock()
		f.secretChanged(b.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-kubeconfig"}})
	}
	next := map[string]string{}
	for _, name := range names {
		next[name] = fingerprintOf(access(name, "1"))
	}
	wait(b, "all kubeconfigs are used", func() bool { return uses(f, next) })
	took := time.Since(began)
	// All clusters are asked once more, by what they are reached with now.
	until := working.done.Load() + 2*int64(len(names))
	wait(b, "the controller asks all clusters again", func() bool { return working.done.Load() >= until })
	working.asks.Store(false)
	b.ReportMetric(float64(working.done.Load()), "reconciles-meanwhile")
	b.ReportMetric(float64(working.failed.Load()), "failed-reconciles")
	if failed := working.failed.Load(); failed > 0 {
		b.Errorf("%d reconciles failed", failed)
	}
	return took.Seconds()
}

// uses is whether clusters are connected by what has these fingerprints.
func uses(f *fleet, fingerprints map[string]string) bool {
	for name, fingerprint := range fingerprints {
		conn := f.member(nameOf(name)).line.connected()
		if conn == nil || conn.fingerprint != fingerprint {
			return false
		}
	}
	return true
}

// startClusters starts the process with the workload clusters, and returns the access to one of them.
func startClusters(b *testing.B) func(name, token string) *rest.Config {
	b.Helper()
	command := exec.CommandContext(b.Context(), os.Args[0])
	command.Env = append(os.Environ(), servesClusters+"=true")
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = input.Close()
		_ = command.Wait()
	})
	found := served{}
	if err := json.NewDecoder(output).Decode(&found); err != nil {
		b.Fatal(err)
	}
	return func(name, token string) *rest.Config {
		return &rest.Config{
			Host: strings.Replace(found.Host, "NAME", name, 1), BearerToken: token,
			TLSClientConfig: rest.TLSClientConfig{CAData: found.CAPEM, CertData: found.Cert, KeyData: found.Secret},
		}
	}
}

// resident returns the memory of this process in KiB.
func resident(b *testing.B) int {
	b.Helper()
	debug.FreeOSMemory()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			size, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				b.Fatal(err)
			}
			return size
		}
	}
	b.Fatal("the size of the process is not known")
	return 0
}

func wait(b *testing.B, what string, is func() bool) {
	b.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for !is() {
		if time.Now().After(deadline) {
			b.Fatalf("it never came that %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
