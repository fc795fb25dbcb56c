package forget

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge/seat"
)

// seatIsDead returns an AliveError if an Archelon renews the seat of the management cluster,
// in whatever namespace it is.
func (f *forgetter) seatIsDead(ctx context.Context) error {
	if f.opts.IgnoreSeat {
		return nil
	}
	leases := &coordinationv1.LeaseList{}
	if err := f.client.List(ctx, leases, client.MatchingFields{metav1.ObjectNameField: seat.LeaseName(f.opts.UID)}); err != nil {
		return fmt.Errorf("looking for an Archelon that serves the management cluster: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		holder, until := seat.Holder(lease)
		alive := holder != "" && time.Now().Before(until)
		if holder != "" && !alive && f.opts.Yes {
			var err error
			if alive, err = f.renewed(ctx, lease, holder); err != nil {
				return err
			}
		}
		if alive {
			return AliveError{fmt.Sprintf("%s serves the management cluster: it renews Lease %s. Stop that Archelon if the management "+
				"cluster is to be forgotten; --ignore-seat goes on nevertheless", holder, client.ObjectKeyFromObject(lease))}
		}
	}
	return nil
}

// renewed watches a seat whose holder seems to be dead by its own clock, which may be wrong, for as long as
// one that lives may be silent.
func (f *forgetter) renewed(ctx context.Context, lease *coordinationv1.Lease, holder string) (bool, error) {
	f.say("Watching for %v whether %s renews Lease %s.", f.quiet, holder, client.ObjectKeyFromObject(lease))
	ctx, done := context.WithTimeout(ctx, f.quiet)
	defer done()
	changes, err := f.client.Watch(ctx, &coordinationv1.LeaseList{}, client.InNamespace(lease.Namespace), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: lease.ResourceVersion},
	}, client.MatchingFields{metav1.ObjectNameField: lease.Name})
	if err != nil {
		return false, fmt.Errorf("watching whether an Archelon serves the management cluster: %w", err)
	}
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case event, open := <-changes.ResultChan():
			after, ok := event.Object.(*coordinationv1.Lease)
			switch {
			case !open && ctx.Err() == nil, event.Type == watch.Error:
				return false, fmt.Errorf("the watch over Lease %s has ended early; run it again", client.ObjectKeyFromObject(lease))
			case ok && event.Type != watch.Deleted && seat.Renewed(lease, after):
				return true, nil
			}
		}
	}
}
