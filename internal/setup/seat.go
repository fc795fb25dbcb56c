package setup

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/version"
)

// seat returns what this process has to hold while it writes to Rancher's cluster, nil where that is the management
// cluster.
func (p *process) seat(ctx context.Context, place *place, end *ending) (*seat.Seat, error) {
	if p.remote == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	namespace, err := coordinationNamespace(p.opts)
	if err != nil {
		return nil, err
	}
	// A request that hangs must not cost the seat.
	there, here := p.remote.connection.Config(), rest.CopyConfig(p.config)
	for _, config := range []*rest.Config{there, here} {
		config.Timeout = max(p.opts.Seat.Renew, time.Second)
		config.UserAgent = version.Get().UserAgent() + " seat"
	}
	rancher, err := kubernetes.NewForConfig(there)
	if err != nil {
		return nil, fmt.Errorf("building a client for the seat in Rancher's cluster: %w", err)
	}
	management, err := kubernetes.NewForConfig(here)
	if err != nil {
		return nil, fmt.Errorf("building a client for what the seat is remembered by: %w", err)
	}
	member := place.member
	opts := seat.Options{
		Place: seat.Place{
			Origin: p.remote.origin, Rancher: rancher.CoordinationV1(), RancherNamespace: p.opts.RancherNamespace,
			Management: management.CoordinationV1(), Memory: types.NamespacedName{Namespace: namespace, Name: seat.MemoryName(member.self.Name)},
		},
		Self: member.self.String(), Timing: p.opts.Seat, Lost: func(why string) { end.because(why) }, Logger: p.logger,
		May: member.fence.Check,
		Tell: func(reason, message string) {
			p.tell(ctx, management.CoreV1(), member.self, member.lock.Identity, reason, message)
		},
	}
	return seat.New(opts)
}

// addSeat has the leader take the seat, when it knows that it is the leader.
func addSeat(mgr ctrl.Manager, member *member, held *seat.Seat) error {
	if held == nil {
		return nil
	}
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case <-member.fence.Opened():
			return held.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	}))
	if err != nil {
		return fmt.Errorf("adding the seat in Rancher's cluster: %w", err)
	}
	return nil
}

// guardOf has a client of Rancher's cluster write only while the process knows that it may, and holds the seat.
func guardOf(member *member, held *seat.Seat) func(*rest.Config) *rest.Config {
	return func(config *rest.Config) *rest.Config {
		config = member.guard(config)
		if held != nil {
			config.Wrap(held.Wrap)
		}
		return config
	}
}

// seated waits until the seat is held, if there is one. It reports false when the context has ended.
func seated(ctx context.Context, held *seat.Seat) bool {
	if held == nil {
		return true
	}
	select {
	case <-held.Held():
		return true
	case <-ctx.Done():
		return false
	}
}
