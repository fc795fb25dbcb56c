package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/archelon-io/archelon/internal/condition"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/providers/capi"
)

// Fleet says where the engagement of a Cluster stands.
type Fleet interface {
	Status(cluster types.NamespacedName) (capi.Status, bool)
}

// Reconciler shows on each CAPI Cluster where its engagement stands.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the management cluster.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Fleet is asked for states.
	Fleet Fleet
	// Claim is what this instance works on.
	Claim instance.Claim
	// Recorder publishes Events on CAPI Clusters.
	Recorder events.EventRecorder
	// Clock is the time; default the real one.
	Clock clock.PassiveClock

	// queue is that of the controller, once it runs.
	queue atomic.Pointer[queue]
}

type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := Decide(o, r.Clock.Now())
	if d.Action == nil {
		return ctrl.Result{}, nil
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Acting", "action", d.Action.String())
	if err := d.Action.do(ctx, r); errors.Is(err, condition.ErrOvertaken) {
		return ctrl.Result{}, nil // The event of that is on its way.
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("publishing the condition: %w", err)
	}
	if d.Event != nil {
		r.Recorder.Eventf(o.Cluster, nil, d.Event.Type, d.Event.Reason, "Engage", "%s", shortened(d.Event.Note))
	}
	return ctrl.Result{}, nil
}

// maxNote is what the API server accepts as the note of an Event.
const maxNote = 1024

func shortened(note string) string {
	if len(note) > maxNote {
		return note[:maxNote]
	}
	return note
}

// wake has a Cluster looked at. Before the controller runs there is no need to: it begins with all of them.
func (r *Reconciler) wake(key types.NamespacedName) {
	if q := r.queue.Load(); q != nil {
		q.Add(reconcile.Request{NamespacedName: key})
	}
}
