package importer

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/workload"
)

// Nothing is read or written where the namespace was taken from the instance, and its record is not that of a
// cluster which lost our finalizer.
func TestWithdrawnNamespace(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		reason    string
		err       error
		wantRetry bool
	}{
		"Withdrawn": {"it may be given back, which no event tells", nil, true},
		"NotKnown":  {"the error has it asked again", broken, false},
	} {
		t.Run(name, func(t *testing.T) {
			// Without a client: whatever else it did would fail.
			r := &Reconciler{
				Withdrawn: func(context.Context, string) (bool, error) { return true, tc.err },
				Workloads: &workload.Clients{}, Clock: clock.RealClock{}, jobs: newJobs(1, clock.RealClock{}), memory: newMemory(),
			}
			cluster := testCluster()
			cluster.Finalizers = []string{archelonv1.ImportFinalizer}
			r.holdings.note(cluster)
			r.told.note(cluster, &metav1.Condition{})
			r.conflicts.note(client.ObjectKeyFromObject(cluster), time.Now())
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cluster)})
			if !errors.Is(err, tc.err) || (result.RequeueAfter > 0) != tc.wantRetry {
				t.Errorf("got %v, %v: %s", result, err, tc.reason)
			}
			if _, kept := r.holdings.last[client.ObjectKeyFromObject(cluster)]; kept == tc.wantRetry {
				t.Errorf("the cluster is remembered as held: %t", kept)
			}
			if kept := len(r.told.last) + len(r.conflicts.row); (kept > 0) == tc.wantRetry {
				t.Errorf("%d things are remembered of the cluster", kept)
			}
		})
	}
}
