package baremetal

import (
	"fmt"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
)

// fleet is a simulated API server with many hosts and claims, and one controller.
type fleet struct {
	t                *testing.T
	server           *simulation.Server
	process          *simulation.Process
	requests, writes int
	clock            *clocktesting.FakePassiveClock
}

func newFleet(t *testing.T, hosts, claims int) *fleet {
	t.Helper()
	f := &fleet{t: t, server: simulation.NewServer(simScheme()), clock: clocktesting.NewFakePassiveClock(time.Now())}
	for i := range hosts {
		f.server.Put(simHost(fmt.Sprintf("h-%d", i), "*"))
	}
	for i := range claims {
		namespace := fmt.Sprintf("team-%d", i%50)
		f.server.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		f.server.Put(simClaim(namespace, fmt.Sprintf("c-%d", i)))
	}
	f.start()
	return f
}

func (f *fleet) start() {
	f.t.Helper()
	live := f.server.Client(func(verb string, _ simulation.Key, answered bool) error {
		if !answered {
			f.requests++
			if verb != "get" && verb != "list" {
				f.writes++
			}
		}
		return nil
	})
	cache := f.server.NewCache(simKinds...)
	for _, index := range append(hostIndexes(), claimIndexes()...) {
		cache.Index(index.Object, index.Name, index.Keys)
	}
	r := &Reconciler{
		Client: live, Recorder: simulation.Silent{}, Clock: f.clock,
		Read: Readers{Claims: []client.Reader{cache}, Objects: cache, Metadata: cache, Live: live},
	}
	if err := r.complete(); err != nil {
		f.t.Fatal(err)
	}
	f.process = &simulation.Process{Cache: cache, Reconciler: r, Watches: watchesOf(simScheme(), r)}
	f.process.Start(f.t.Context())
}

// settle works until there is nothing to do, and returns how many requests and writes that took.
func (f *fleet) settle() (requests, writes int) {
	f.t.Helper()
	requests, writes = f.requests, f.writes
	for waits := true; waits; waits = later(f.clock, f.process) {
		if !f.process.Settle(f.t.Context(), 1_000_000) {
			f.t.Fatal("it does not come to rest")
		}
	}
	return f.requests - requests, f.writes - writes
}

func (f *fleet) bound() int {
	claims := map[types.UID]bool{}
	for _, object := range f.server.Objects(hostGK) {
		if host, ok := object.(*bmov1.BareMetalHost); ok && host.Spec.ConsumerRef != nil {
			claims[host.Spec.ConsumerRef.UID] = true
		}
	}
	return len(claims)
}

// What a claim costs does not depend on how many there are, and at rest it costs nothing.
func TestCostOfAClaimIsFlat(t *testing.T) {
	cost := func(n int) float64 {
		f := newFleet(t, n, n)
		requests, _ := f.settle()
		if got := f.bound(); got != n {
			t.Fatalf("%d claims of %d have a host", got, n)
		}
		f.start()
		if requests, _ := f.settle(); requests != 0 {
			t.Errorf("%d requests at rest", requests)
		}
		return float64(requests) / float64(n)
	}
	few, many := cost(20), cost(200)
	t.Logf("%.1f requests for each of 20 claims, %.1f for each of 200", few, many)
	if many > 1.5*few {
		t.Errorf("a claim costs %.1f requests of 20, and %.1f of 200", few, many)
	}
}

// Claims that wait write nothing when hosts of others change, and a host that is freed costs one of them its writes.
func TestWaitingCostsNothing(t *testing.T) {
	f := newFleet(t, 1, 100)
	f.settle()
	if got := f.bound(); got != 1 {
		t.Fatalf("%d claims have the host", got)
	}
	other := simHost("other", "*")
	other.Labels = map[string]string{"size": "xl"}
	f.server.Put(other)
	if requests, _ := f.settle(); requests != 0 {
		t.Errorf("a host that nobody wants costs %d requests", requests)
	}
	f.server.Put(&metal3v1.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "p"}})
	if requests, _ := f.settle(); requests != 0 {
		t.Errorf("a policy for nobody costs %d requests", requests)
	}
	f.server.Put(simHost("free", "*"))
	if _, writes := f.settle(); f.bound() != 2 || writes > 20 {
		t.Errorf("%d claims have a host, and a free one costs %d writes", f.bound(), writes)
	}
}
