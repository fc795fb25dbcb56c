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
func (p *place) reachRancher(ctx context.Context, config *rest.Config) error {
	pair, err := edge.Both(ctx, config, p.home, p.opts.RancherKubeconfig)
	if err != nil {
		return err
	}
	p.client, p.origin = pair.Client, pair.Origin
	p.seat, err = seat.NewLeaver(seat.Place{
		Origin: pair.Origin, Rancher: pair.Rancher.CoordinationV1(), RancherNamespace: p.opts.RancherNamespace,
		Management: pair.Management.CoordinationV1(), Memory: types.NamespacedName{Namespace: p.self.Namespace, Name: seat.MemoryName(p.self.Name)},
	}, seat.DefaultTiming(), clock.RealClock{})
	return err
}

// seatIsOurs fails if another Archelon imports the clusters of this management cluster: this one is a clone, or has
// one. Of many, that one is left to it.
func (u *uninstaller) seatIsOurs(ctx context.Context) error {
	var ours []*place
	for _, p := range u.places {
		switch err := u.withSeats(ctx, []*place{p}, func(ctx context.Context, l *seat.Leaver) (bool, error) { return true, l.Taken(ctx) }); {
		case p.name != "" && errors.Is(err, seat.ErrTaken):
			u.say("Left management cluster %s as it is: %v", p.name, err)
		case err != nil:
			return err
		default:
			ours = append(ours, p)
		}
	}
	u.places = ours
	return nil
}

// seatIsFree waits until it is known that no manager works by what this installation remembers.
func (u *uninstaller) seatIsFree(ctx context.Context) error {
	return u.withSeats(ctx, u.places, func(ctx context.Context, l *seat.Leaver) (bool, error) { return l.Free(ctx) })
}

// leaveSeat ends what the seat and this installation know of each other.
func (u *uninstaller) leaveSeat(ctx context.Context) error {
	return u.withSeats(ctx, u.places, func(ctx context.Context, l *seat.Leaver) (bool, error) { err := l.Leave(ctx); return err == nil, err })
}

// withSeats asks of all seats until each answer is yes: what they wait for passes at the same time. That another has
// one is no failure that passes.
func (u *uninstaller) withSeats(ctx context.Context, places []*place, done func(context.Context, *seat.Leaver) (bool, error)) error {
	var taken error
	err := u.until(ctx, func(ctx context.Context) (bool, error) {
		ok, err := each(places, func(p *place) (bool, error) {
			if p.seat == nil {
				return true, nil
			}
			return done(ctx, p.seat)
		})
		if errors.Is(err, seat.ErrTaken) {
			taken = err
			return true, nil
		}
		return ok && err == nil, err
	})
	return errors.Join(taken, err)
}
