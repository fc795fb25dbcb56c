package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/hostclaim"
)

// FieldOwner is the name under which API servers record what this controller writes.
const FieldOwner = "archelon-host-claim-remote"

// lookAgain is how soon it is looked again whether the target of an earlier source is gone. Its events wake nobody.
const lookAgain = time.Minute

// Reconciler has claims of other clusters stand for those of this one.
type Reconciler struct {
	// Client writes.
	Client client.Client
	// Read is what it reads from.
	Read Readers
	// Remotes lead to other clusters.
	Remotes Remotes
	// Recorder records Events.
	Recorder events.EventRecorder
	// Place is where it works.
	Place hostclaim.Place
	// NoClusters: the kind of CAPI Clusters does not exist, so none of them pauses a claim.
	NoClusters bool
	// Metrics are optional.
	Metrics *hostclaim.Metrics
	// Clock is optional.
	Clock clock.PassiveClock
}

// Reconcile implements reconcile.Reconciler. What is done wakes it again: a run that has done something ends there.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o, remote, err := r.observe(ctx, request.NamespacedName)
	if err == nil {
		err = errors.Join(r.work(ctx, o, remote), o.Failure)
	}
	if remote != nil {
		remote.Release(err)
	}
	if ofConnection(err) {
		err = nil // What follows the other cluster wakes the source.
	}
	if err == nil && o.Earlier != nil {
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	if err == nil && o.Wait > 0 {
		return ctrl.Result{RequeueAfter: o.Wait}, nil
	}
	return ctrl.Result{}, hostclaim.IgnoreOvertaken(err)
}

// work does what there is to do.
func (r *Reconciler) work(ctx context.Context, o Observation, remote *Remote) error {
	d := Decide(o, r.Clock.Now())
	var there Cluster
	if remote != nil {
		there = remote.Cluster
	}
	for _, action := range d.Actions {
		ctrl.LoggerFrom(ctx).V(1).Info("Acting", "action", action.String())
		if err := action.do(ctx, r, there); hostclaim.Overtaken(err) {
			return nil
		} else if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", action, err), r.publish(ctx, o.Claim, failed(o.Claim, err, r.Clock.Now())))
		}
	}
	if len(d.Actions) > 0 {
		return nil
	}
	return r.publish(ctx, o.Claim, d)
}
