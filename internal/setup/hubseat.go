package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/hub"
	"github.com/archelon-io/archelon/internal/version"
)

// whileSeated imports from a management cluster while this process holds its seat, which is beside the Secrets that
// register management clusters. What writes has to be guarded.
func (p *parts) whileSeated(
	ctx context.Context, here ctrl.Manager, from hub.Target, served func(why string), imports func(context.Context, func(*rest.Config) *rest.Config) error,
) error {
	if fence := p.place.member.fence; fence != nil {
		select {
		case <-fence.Opened():
		case <-ctx.Done():
			return nil
		}
	}
	place, err := p.seatOf(here.GetConfig(), from.UID)
	if err != nil {
		return err
	}
	importing, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	held, err := seat.New(seat.Options{
		Place: place, Self: p.place.member.self.String(), Timing: p.opts.Seat, Logger: here.GetLogger().WithValues("managementCluster", from.Name),
		Lost: func(why string) { lose(&hub.ServedError{Why: why}) },
		Waits: func(why string, contested bool) {
			if !contested {
				why = ""
			}
			served(why)
		},
	})
	if err != nil {
		return err
	}
	sitting, leave := context.WithCancel(context.WithoutCancel(ctx))
	left := make(chan error, 1)
	go func() { left <- held.Run(sitting) }()
	if seated(importing, held) {
		err = imports(importing, func(config *rest.Config) *rest.Config {
			config = rest.CopyConfig(config)
			config.Wrap(held.Wrap)
			return config
		})
	}
	leave() // Nothing writes any more.
	err = errors.Join(err, <-left)
	if taken, ok := errors.AsType[*hub.ServedError](context.Cause(importing)); ok {
		return taken
	}
	return errors.Join(err, p.leaveSeatOf(ctx, here, from, place))
}

// seatOf returns where the seat of a management cluster is, and what remembers who has had it.
func (p *parts) seatOf(config *rest.Config, origin types.UID) (seat.Place, error) {
	config = rest.CopyConfig(config)
	config.Timeout = max(p.opts.Seat.Renew, time.Second) // A request that hangs must not cost the seat.
	config.UserAgent = version.Get().UserAgent() + " seat"
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return seat.Place{}, fmt.Errorf("building a client for the seat of a management cluster: %w", err)
	}
	return seat.Many(clients, p.opts.ManagementClustersNamespace, p.place.member.self.Name, origin), nil
}

// leaving bounds how long an import that has ended takes to leave its seat.
const leaving = 10 * time.Second

// leaveSeatOf leaves nothing behind of a management cluster that is not registered any more:
// another Archelon may serve it.
func (p *parts) leaveSeatOf(ctx context.Context, here ctrl.Manager, from hub.Target, place seat.Place) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer done()
	err := here.GetClient().Get(ctx, client.ObjectKey{Namespace: p.opts.ManagementClustersNamespace, Name: from.Name}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		return nil // It may be registered.
	}
	leaver, err := seat.NewLeaver(place, p.opts.Seat, clock.RealClock{})
	if err != nil {
		return err
	}
	return leaver.Leave(ctx)
}
