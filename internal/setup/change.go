package setup

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
)

// How changes of permissions are looked for. Without permissions the watches go on until the API server ends them,
// after five to ten minutes; from then on it refuses each of them for ever. But a RoleBinding that is replaced is away
// for a moment, and a process that ends again and again is kept waiting by the kubelet. So a change counts when it is
// seen as often as this, accessPoll apart, and is the same each time.
const (
	steady = 4
	// lossPoll is how often an instance looks that may not watch its RoleBindings.
	lossPoll = time.Minute
)

// suspectLoss has the permissions in namespaces looked at. Those in a namespace that is unbound are lost whatever the
// API server says, nil if that cannot be told. It never blocks, and several calls at once are one.
func (a *access) suspectLoss(unbound func(namespace string) bool) {
	select {
	case a.suspect <- unbound:
	default:
	}
}

// watch says when the instance may work in one more of its namespaces, or no more in one in which it
// works, until the context ends.
func (a *access) watch(ctx context.Context, granted, missing []string, end func(sentence string, keysAndValues ...any)) {
	var looking sync.WaitGroup
	looking.Go(func() { a.grow(ctx, missing, end) })
	looking.Go(func() { a.shrink(ctx, granted, end) })
	looking.Wait()
}

// grow says when the instance may work in some of the namespaces in which it could not.
func (a *access) grow(ctx context.Context, missing []string, end func(string, ...any)) {
	var before []string
	for seen := 0; len(missing) > 0 && pause(ctx, accessPoll); {
		granted := slices.DeleteFunc(slices.Clone(missing), func(name string) bool {
			lacks, err := a.lacks(ctx, name)
			return err != nil || lacks != ""
		})
		if !slices.Equal(granted, before) {
			before, seen = granted, 0
		}
		if seen++; len(granted) > 0 && seen == steady {
			end("This instance may work in more of its namespaces", "namespaces", granted)
			return
		}
	}
}

// shrink says when the instance has lost permissions in one of the namespaces. It asks when there is a suspicion, and
// never else. None, for a scope that is not a list of names, are never lost: there would be nothing to go on with.
func (a *access) shrink(ctx context.Context, granted []string, end func(string, ...any)) {
	// A RoleBinding that goes takes all permissions along, so each look asks for one of them,
	// and the next one for another.
	for looks := 0; ; looks++ {
		var unbound func(string) bool
		select {
		case <-ctx.Done():
			return
		case unbound = <-a.suspect:
		}
		one := a.right(looks)
		if lost := a.lost(ctx, granted, one, unbound); len(lost) > 0 {
			end("This instance may not work in some of its namespaces any more", "namespaces", lost, "lacking", one.String())
			return
		}
	}
}

// lost returns those of the namespaces in which a permission is gone for good. The API server may grant for a moment
// what is gone, so it does not ask at once.
func (a *access) lost(ctx context.Context, granted []string, one right, unbound func(string) bool) []string {
	lost := granted
	for range steady {
		if len(lost) == 0 || !pause(ctx, accessPoll) {
			return nil
		}
		lost = a.refused(ctx, lost, one, unbound)
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

// refused returns those of the namespaces that are unbound or in which the instance lacks a right, in their order.
// Where the API server does not answer it is not refused.
func (a *access) refused(ctx context.Context, names []string, one right, unbound func(string) bool) []string {
	lacks := make([]bool, len(names))
	workqueue.ParallelizeUntil(ctx, accessQuestions, len(names), func(i int) {
		if unbound != nil && unbound(names[i]) {
			lacks[i] = true
			return
		}
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
