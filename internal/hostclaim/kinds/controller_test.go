package kinds

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
)

func TestReconcile(t *testing.T) {
	created := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		change func(*metal3v1.HostClaim)
		age    time.Duration
		said   bool
		wait   time.Duration
	}{
		"young": {nil, 20 * time.Second, false, 40 * time.Second},
		"old":   {nil, 2 * time.Minute, true, 0},
		"somebody has begun": {func(c *metal3v1.HostClaim) {
			meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: "Associated", Status: "False", Reason: "X"})
		}, 2 * time.Minute, false, 0},
		"somebody holds it": {func(c *metal3v1.HostClaim) { c.Finalizers = []string{"x/y"} }, 2 * time.Minute, false, 0},
		"Metal3's controller serves it": {func(c *metal3v1.HostClaim) {
			c.Finalizers = []string{metal3v1.Metal3Finalizer}
		}, 2 * time.Minute, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := metal3v1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			server := simulation.NewServer(scheme)
			claim := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: "a", Name: "c", CreationTimestamp: metav1.NewTime(created),
			}, Spec: metal3v1.HostClaimSpec{Kind: "foo"}}
			if tc.change != nil {
				tc.change(claim)
			}
			server.Put(claim)
			api := server.Client(nil)
			r := &Reconciler{
				Client: api, Claims: api, Kinds: []string{"baremetal"}, Grace: time.Minute,
				Clock: clocktesting.NewFakePassiveClock(created.Add(tc.age)),
			}
			expect(t, server, r, claim, tc.wait, tc.said)
		})
	}
}

// expect reconciles twice: what was said once is not said again.
func expect(
	t *testing.T, server *simulation.Server, r *Reconciler, claim *metal3v1.HostClaim, wait time.Duration, want bool,
) {
	t.Helper()
	for range 2 {
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(claim)})
		if err != nil || result.RequeueAfter != wait {
			t.Fatalf("got %v, %v", result, err)
		}
	}
	found, _ := server.Get(server.KeyOf(claim)).(*metal3v1.HostClaim)
	ready := meta.FindStatusCondition(found.Status.Conditions, "Ready")
	if said := ready != nil && ready.Reason == "KindNotHandled"; said != want {
		t.Errorf("got %+v", ready)
	}
	if writes := len(server.Writes); writes > 1 || (writes == 1) != want {
		t.Errorf("%d writes", writes)
	}
}
