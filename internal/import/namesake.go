package importer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// checkNamesake refuses a new import under the name of a v1 Rancher cluster that is not this cluster's. Rancher writes
// Secret <name>-kubeconfig for that, which leads to the other's workload cluster, and deletes the CAPI cluster of that
// name together with it.
func (r *Reconciler) checkNamesake(ctx context.Context, s *scope) outcome.Outcome {
	if s.cluster.Annotations[archelonv1.RecordAnnotation] != "" {
		return outcome.Done()
	}
	for _, strategy := range r.strategies() {
		key := strategy.Key(s.cluster, s.cluster.Name)
		if key.Namespace == "" {
			continue
		}
		namesake := record{Object: strategy.NewObject(), strategy: strategy}
		namesake.SetNamespace(key.Namespace)
		namesake.SetName(key.Name)
		if slices.ContainsFunc(s.records, func(r record) bool { return r.id() == namesake.id() }) {
			continue // It names this cluster as its owner.
		}
		if err := r.Client.Get(ctx, key, namesake.Object); err == nil {
			return outcome.Stall(archelonv1.RecordNameTakenReason, fmt.Sprintf(
				"The %s stands for another CAPI cluster, and its kubeconfig Secret has the name of this cluster's; create this cluster under another name", namesake))
		}
		if out := r.lookForNamesake(ctx, s, namesake); !out.IsDone() {
			return out
		}
	}
	return outcome.Done()
}

// Pauses between two looks for a v1 Rancher cluster that the cache does not show. They double.
const (
	namesakeRecheck    = unseenRecheck
	namesakeRecheckMax = 5 * time.Minute
)

// lookForNamesake asks the API server for a v1 Rancher cluster of the cluster's name. The cache shows only those with
// owner labels, not one that was created in Rancher. Nothing tells that it goes, so it is looked for again, less and
// less often.
func (r *Reconciler) lookForNamesake(ctx context.Context, s *scope, namesake record) outcome.Outcome {
	left := r.looks.left(s.key(), r.Clock.Now())
	if left == 0 {
		err := r.APIReader.Get(ctx, types.NamespacedName{Namespace: namesake.GetNamespace(), Name: namesake.GetName()}, namesake.strategy.NewObject())
		switch {
		case apierrors.IsNotFound(err):
			r.looks.forget(s.key())
			return outcome.Done()
		case err != nil:
			return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("looking for a %s Rancher cluster of this cluster's name: %w", namesake.strategy.Kind(), err))
		}
		left = r.looks.note(s.key(), r.Clock.Now())
	}
	return outcome.Poll(archelonv1.RecordNameTakenReason, fmt.Sprintf(
		"The %s was created by somebody else, and its kubeconfig Secret has the name of this cluster's; create this cluster under another name. "+
			"Do not delete that Rancher cluster while this one exists: Rancher would delete this CAPI cluster together with it", namesake), left)
}

// looks remembers when something that no watch shows is looked for again, so that events about the cluster cost no
// request meanwhile.
type looks struct {
	mu   sync.Mutex
	next map[types.NamespacedName]look
}

type look struct {
	pause time.Duration
	at    time.Time
}

func newLooks() *looks { return &looks{next: map[types.NamespacedName]look{}} }

// note remembers that it was found now, and returns the pause until it is looked for again.
func (l *looks) note(key types.NamespacedName, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause := min(max(namesakeRecheck, 2*l.next[key].pause), namesakeRecheckMax)
	l.next[key] = look{pause: pause, at: now.Add(pause)}
	return pause
}

// left returns how long the pause still is, zero if there is none.
func (l *looks) left(key types.NamespacedName, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.next[key]
	if !ok {
		return 0
	}
	return max(0, found.at.Sub(now))
}

// forget ends the pauses of a cluster.
func (l *looks) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.next, key)
}
