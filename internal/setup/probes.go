package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

var errStarting = errors.New("it is not known yet where this instance may work")

// addProbes has a manager answer /healthz, and /readyz by all of the checks.
func addProbes(mgr ctrl.Manager, checks map[string]healthz.Checker) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the liveness probe: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if err := mgr.AddReadyzCheck(name, checks[name]); err != nil {
			return fmt.Errorf("adding readiness check %s: %w", name, err)
		}
	}
	return nil
}

// serveUntil serves probes and metrics until the context ends, unless that is in a moment: a Pod without an answer to
// its liveness probe is killed. An instance that may work nowhere does all that it may, so it is ready: Helm, which
// would wait for that, is the one that creates the RoleBindings.
func (p *process) serveUntil(ctx context.Context, nowhere <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-nowhere:
	case <-time.After(slowAnswer):
	}
	mgr, err := ctrl.NewManager(p.config, serverOptions(p.opts))
	if err != nil {
		return fmt.Errorf("serving probes and metrics: %w", err)
	}
	known := func(*http.Request) error {
		select {
		case <-nowhere:
			return nil
		default:
			return errStarting
		}
	}
	if err := addProbes(mgr, map[string]healthz.Checker{"permissions": known}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
