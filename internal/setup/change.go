package setup

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

// How rights that were there are looked for. Without them the watches go on until the API server ends them, after five to ten minutes; from then on it
// refuses each of them for ever. A RoleBinding that is replaced is away for a moment, and a new manager is not free. So a right is lost when it is refused
// as often as this, accessPoll apart.
const (
	lossRefusals = 4
	// lossPoll is how often an instance looks that may not watch its RoleBindings.
	lossPoll = time.Minute
)

// suspectLoss has the rights in namespaces looked at. It never blocks, and several calls at once are one.
func (a *access) suspectLoss() {
	select {
	case a.suspect <- struct{}{}:
	default:
	}
}

// change returns when the instance may work in one more of its namespaces, or no more in one in which it works, or when the context ends.
func (a *access) change(ctx context.Context, granted, missing []string) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var looking sync.WaitGroup
	looking.Go(func() { defer stop(); a.grow(ctx, missing) })
	looking.Go(func() { defer stop(); a.shrink(ctx, granted) })
	looking.Wait()
}

// grow returns when the instance may work in one more of the namespaces, or when the context ends.
func (a *access) grow(ctx context.Context, missing []string) {
	if len(missing) == 0 {
		<-ctx.Done()
		return
	}
	// It ends with the context only: a question that fails is asked again.
	_ = wait.PollUntilContextCancel(ctx, accessPoll, false, func(ctx context.Context) (bool, error) {
		for _, name := range missing {
			if lacks, err := a.lacks(ctx, name); err == nil && lacks == "" {
				a.logger.Info("This instance may work in one more namespace; starting over with it", "namespace", name)
				return true, nil
			}
		}
		return false, nil
	})
}

// shrink returns when the instance has lost rights in one of the namespaces, or when the context ends. It asks when there is a suspicion, and never else. None,
// for a scope that is not a list of names, are never lost: there would be nothing to go on with.
func (a *access) shrink(ctx context.Context, granted []string) {
	// A RoleBinding that goes takes all rights along, so each look asks for one of them, and the next one for another.
	for looks := 0; ; looks++ {
		select {
		case <-ctx.Done():
			return
		case <-a.suspect:
		}
		one := a.right(looks)
		if lost := a.lost(ctx, granted, one); len(lost) > 0 {
			a.logger.Info("This instance may not work in some of its namespaces any more; starting over without them", "namespaces", lost, "lacking", one.String())
			return
		}
	}
}

// lost returns those of the namespaces in which a right is refused for good. The API server may grant for a moment what is gone, so it does not ask at once.
func (a *access) lost(ctx context.Context, granted []string, one right) []string {
	lost := granted
	for range lossRefusals {
		if len(lost) == 0 || !pause(ctx, accessPoll) {
			return nil
		}
		lost = a.refused(ctx, lost, one)
	}
	return lost
}

// right is one that the instance needs in each of its namespaces.
type right struct {
	verb     string
	resource schema.GroupResource
}

// String is as lacks says it.
func (r right) String() string { return r.verb + " " + r.resource.String() }

// right returns one right after the other, and begins again after the last.
func (a *access) right(i int) right {
	verbs := verbs()
	i %= len(a.watched) * len(verbs)
	return right{verb: verbs[i%len(verbs)], resource: a.watched[i/len(verbs)]}
}

// refused returns those of the namespaces in which the instance lacks a right, in their order. Where the API server does not answer it is not refused.
func (a *access) refused(ctx context.Context, names []string, one right) []string {
	lacks := make([]bool, len(names))
	workqueue.ParallelizeUntil(ctx, accessQuestions, len(names), func(i int) {
		may, err := a.may(ctx, names[i], one)
		lacks[i] = err == nil && !may
	})
	var refused []string
	for i, name := range names {
		if lacks[i] {
			refused = append(refused, name)
		}
	}
	return refused
}

// pause reports whether the context lasted longer.
func pause(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
