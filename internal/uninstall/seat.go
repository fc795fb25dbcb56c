package uninstall

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/archelon-io/archelon/internal/edge"
	"github.com/archelon-io/archelon/internal/edge/seat"
)

// reachRancher prepares what is done in Rancher's cluster, where that is another one.
func (u *uninstaller) reachRancher(ctx context.Context, config *rest.Config) error {
	pair, err := edge.Both(ctx, config, u.client, u.opts.RancherKubeconfig)
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

// seatIsOurs fails if another Archelon imports the clusters of this management cluster: this one is a clone, or has
// one.
func (u *uninstaller) seatIsOurs(ctx context.Context) error {
	return u.withSeat(ctx, func(ctx context.Context) (bool, error) { return true, u.seat.Taken(ctx) })
}

// seatIsFree waits until it is known that no manager works by what this installation remembers.
func (u *uninstaller) seatIsFree(ctx context.Context) error {
	return u.withSeat(ctx, u.seat.Free)
}

// leaveSeat ends what the seat and this installation know of each other.
func (u *uninstaller) leaveSeat(ctx context.Context) error {
	return u.withSeat(ctx, func(ctx context.Context) (bool, error) { err := u.seat.Leave(ctx); return err == nil, err })
}

// withSeat is until, where there is a seat. That another has it is no failure that passes.
func (u *uninstaller) withSeat(ctx context.Context, done func(context.Context) (bool, error)) error {
	if u.seat == nil {
		return nil
	}
	var taken error
	err := u.until(ctx, func(ctx context.Context) (bool, error) {
		ok, err := done(ctx)
		if errors.Is(err, seat.ErrTaken) {
			taken = err
			return true, nil
		}
		return ok && err == nil, err
	})
	return errors.Join(taken, err)
}
