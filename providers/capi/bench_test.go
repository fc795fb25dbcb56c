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
	measured "runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/archelon-io/archelon/test/bench/workloadserver"
)

// servesClusters has this program play the workload clusters of a benchmark, so that their memory is not in the measurement.
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

// watcher is a controller that watches the metadata of Secrets.
type watcher struct{ engaged sync.Map }

// Engage implements multicluster.Aware.
func (w *watcher) Engage(ctx context.Context, name multicluster.ClusterName, c cluster.Cluster) error {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	informer, err := c.GetCache().GetInformer(ctx, secret)
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
	w.engaged.Store(name, informer)
	return err
}

func (w *watcher) synced() int {
	count := 0
	w.engaged.Range(func(_, informer any) bool {
		if i, ok := informer.(interface{ HasSynced() bool }); ok && i.HasSynced() {
			count++
		}
		return true
	})
	return count
}

// BenchmarkFleet engages 1,000 clusters, of which each twentieth is a black hole, forbids everything, or refuses the
// credentials. Then all kubeconfigs are replaced while controllers work, and all clusters are disengaged.
//
//	go test -run '^$' -bench Fleet -benchtime 1x ./providers/capi
func BenchmarkFleet(b *testing.B) {
	for b.Loop() {
		benchmarkFleet(b, 1000)
	}
}

func benchmarkFleet(b *testing.B, clusters int) {
	b.Helper()
	f := unstarted(b, func(o *Options) { o.Timing = Timing{} })
	watching := &watcher{}
	access := startClusters(b)
	forbids, refuses := newServer(b, "a"), newServer(b, "a")
	forbids.fail(func(*http.Request) int { return http.StatusForbidden })
	hole := blackHole(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.Start(ctx, watching) }()

	goroutines, memory := runtime.NumGoroutine(), resident(b)
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
		f.ensure(provisionedCluster(name))
	}
	wait(b, "all healthy clusters are received", func() bool {
		return watching.synced() == len(healthy)
	})
	b.ReportMetric(time.Since(began).Seconds(), "s-until-engaged")
	b.ReportMetric(float64(resident(b)-memory)/float64(len(healthy)), "KiB/cluster")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(len(healthy)), "goroutines/cluster")

	b.ReportMetric(rotateAll(b, f, access, healthy), "s-until-rotated")
	waited := []measured.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	measured.Read(waited)
	b.ReportMetric(waited[0].Value.Float64(), "s-waited-for-locks")
	for name := range f.access {
		f.forget(nameOf(name))
	}
	wait(b, "all goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// rotateAll replaces all kubeconfigs while controllers read from all clusters.
func rotateAll(b *testing.B, f *fleet, access func(name, token string) *rest.Config, names []string) float64 {
	b.Helper()
	var reads atomic.Int64
	done := make(chan struct{})
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for i := worker; ; i += 8 {
				select {
				case <-done:
					return
				default:
				}
				if err := readFrom(b.Context(), f, nameOf(names[i%len(names)])); err != nil {
					b.Errorf("a read failed: %v", err)
					return
				}
				reads.Add(1)
			}
		})
	}
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
	close(done)
	workers.Wait()
	b.ReportMetric(float64(reads.Load()), "reads-meanwhile")
	return took.Seconds()
}

func readFrom(ctx context.Context, f *fleet, name multicluster.ClusterName) error {
	c, err := f.Get(ctx, name)
	if err != nil {
		return err
	}
	return c.GetAPIReader().List(ctx, &corev1.SecretList{})
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
