package uninstall

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/docs"
	"github.com/archelon-io/archelon/internal/edge"
	"github.com/archelon-io/archelon/internal/edge/seat"
)

// reachRancher prepares what is done in Rancher's cluster, where that is another one.
func (u *uninstaller) reachRancher(ctx context.Context, config *rest.Config) error {
	pair, err := edge.Both(ctx, config, u.home, u.opts.RancherKubeconfig)
	if err != nil {
		return err
	}
	u.client, u.origin = pair.Client, pair.Origin
	u.seat, err = seat.NewLeaver(seat.Place{
		Origin: pair.Origin, Rancher: pair.Rancher.CoordinationV1(), RancherNamespace: u.opts.RancherNamespace,
		Management: pair.Management.CoordinationV1(), Memory: types.NamespacedName{Namespace: u.self.Namespace, Name: seat.MemoryName(u.self.Name)},
	}, seat.DefaultTiming(), clock.RealClock{})
	return err
}

// leaveRancher prepares an uninstallation that makes no request to Rancher's cluster, whose kubeconfig may be gone.
func (u *uninstaller) leaveRancher(ctx context.Context) error {
	system := named(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := u.home.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("reading the UID of the management cluster: %w", err)
	}
	u.origin = system.UID
	return nil
}

// releasePage says how Rancher clusters are released by hand.
const releasePage = "examples/remote-rancher/README.md#when-the-management-cluster-is-gone-for-good"

// sayLeftInRancher says what an uninstallation leaves that makes no request to Rancher's cluster.
func (u *uninstaller) sayLeftInRancher() {
	if !u.opts.LeaveRancher {
		return
	}
	u.say("Rancher clusters of this management cluster stay in Rancher, with finalizer %s. "+
		"In Rancher's cluster, this lists them:", archelonv1.ImportFinalizer)
	u.say("kubectl get clusters.management.cattle.io --selector=%s=%s", archelonv1.ManagementClusterLabel, u.origin)
	u.say("Delete or release them as %s says", docs.Page(releasePage))
}

// forgetSeat deletes what this installation remembers of the seat in Rancher's cluster, if it leaves that alone.
func (u *uninstaller) forgetSeat(ctx context.Context) error {
	if !u.opts.LeaveRancher {
		return nil
	}
	memory := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.self.Namespace, Name: seat.MemoryName(u.self.Name)},
	}
	return client.IgnoreNotFound(u.home.Delete(ctx, memory))
}

// seatIsOurs fails if another Archelon imports the clusters of this management cluster: this one is a clone, or was
// cloned.
func (u *uninstaller) seatIsOurs(ctx context.Context) error {
	return u.withSeat(ctx, func(ctx context.Context, l *seat.Leaver) (bool, error) { return true, l.Taken(ctx) })
}

// seatIsFree waits until it is known that no manager of this installation uses the seat.
func (u *uninstaller) seatIsFree(ctx context.Context) error {
	return u.withSeat(ctx, func(ctx context.Context, l *seat.Leaver) (bool, error) { return l.Free(ctx) })
}

// leaveSeat clears the seat, and deletes what this installation remembers of it.
func (u *uninstaller) leaveSeat(ctx context.Context) error {
	return u.withSeat(ctx, func(ctx context.Context, l *seat.Leaver) (bool, error) { err := l.Leave(ctx); return err == nil, err })
}

// withSeat repeats a step until it is done. It stops at once if another Archelon has the seat, because that does not
// change by waiting. It does nothing if Rancher is in the management cluster.
func (u *uninstaller) withSeat(ctx context.Context, done func(context.Context, *seat.Leaver) (bool, error)) error {
	if u.seat == nil {
		return nil
	}
	var taken error
	err := u.until(ctx, func(ctx context.Context) (bool, error) {
		ok, err := done(ctx, u.seat)
		if errors.Is(err, seat.ErrTaken) {
			taken = err
			return true, nil
		}
		return ok, err
	})
	return errors.Join(taken, err)
}
