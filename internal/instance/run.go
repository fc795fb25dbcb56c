package instance

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/archelon-io/archelon/internal/shard"
)

// Durations are those of leader election.
type Durations struct {
	// Lease is how long a Lease lasts that is not renewed, Renew within which time it has to be renewed, and Retry the
	// pause between two tries.
	Lease, Renew, Retry time.Duration
}

// StandBy returns where the instance may work. If that is nowhere yet, it calls waits, and holds the Lease meanwhile:
// an instance that waits for its namespaces is alive, and others are to see that.
func (p *Peers) StandBy(ctx context.Context, durations Durations, lock LockOptions, waits func()) (shard.Scope, error) {
	if share, _, _ := p.share(); !share.Scope.Empty() {
		return p.await(ctx) // It is decided at once, or within seconds.
	}
	waits()
	lock.Works = shard.None()
	lock.Events = nil // This replica will say that it leads when it works, and the same Event is not published twice.
	// The fence of the process is for the work that follows.
	var err error
	if lock.Fence, err = NewFence(lock.Identity, durations.Lease, durations.Renew); err != nil {
		return shard.None(), err
	}
	turns, err := NewLock(lock)
	if err != nil {
		return shard.None(), err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: turns, LeaseDuration: durations.Lease, RenewDeadline: durations.Renew, RetryPeriod: durations.Retry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return shard.None(), fmt.Errorf("taking turns on the Lease: %w", err)
	}
	holding, giveBack := context.WithCancel(ctx)
	var group wait.Group
	group.StartWithContext(holding, func(ctx context.Context) {
		for ctx.Err() == nil {
			elector.Run(ctx) // It returns when the Lease is lost, too.
		}
	})
	scope, err := p.await(ctx)
	giveBack()
	group.Wait()
	return scope, err
}
