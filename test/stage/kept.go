package stage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/archelon-io/archelon/test/env"
)

// Kept are control planes that stages use one after the other. To clear one takes a moment; to start one takes
// many seconds of a processor.
type Kept struct {
	mu   sync.Mutex
	all  []*env.ControlPlane
	free map[traits][]*env.ControlPlane
}

// traits are what tell control planes apart.
type traits struct {
	crds        string
	controllers bool
}

func traitsOf(opts env.Options) traits {
	var crds []string
	for _, crd := range opts.CRDs {
		for _, version := range crd.Spec.Versions {
			crds = append(crds, fmt.Sprint(crd.Name, version.Name, version.Subresources != nil && version.Subresources.Status != nil))
		}
	}
	return traits{strings.Join(crds, " "), opts.ControllerManager}
}

// NewKept returns none. They are started when they are needed first.
func NewKept() *Kept { return &Kept{free: map[traits][]*env.ControlPlane{}} }

// take returns one that nobody uses, as new, with an audit log. Its Stop gives it back.
func (k *Kept) take(ctx context.Context, opts env.Options) (*env.ControlPlane, error) {
	of := traitsOf(opts)
	if opts.Workloads || opts.AuditUsers != nil || opts.EtcdQuota != 0 {
		return nil, errors.New("a control plane with these options is not kept for others")
	}
	plane, err := k.cleared(ctx, of)
	if err != nil {
		return nil, err
	}
	name := opts.Name
	if plane == nil {
		opts.Name, opts.Audit = "kept", true
		if plane, err = env.Start(ctx, opts); err != nil {
			return nil, err
		}
		k.mu.Lock()
		k.all = append(k.all, plane)
		k.mu.Unlock()
	}
	return plane.Lend(name, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.free[of] = append(k.free[of], plane)
	})
}

// cleared returns one that has been used before, nil if there is none.
func (k *Kept) cleared(ctx context.Context, of traits) (*env.ControlPlane, error) {
	k.mu.Lock()
	free := k.free[of]
	if len(free) == 0 {
		k.mu.Unlock()
		return nil, nil //nolint:nilnil // there is none
	}
	plane := free[len(free)-1]
	k.free[of] = free[:len(free)-1]
	k.mu.Unlock()
	if err := wipe(ctx, plane.Config, true); err != nil {
		return nil, fmt.Errorf("clearing a control plane for the next stage: %w", err)
	}
	return plane, nil
}

// Stop ends all of them.
func (k *Kept) Stop() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, plane := range k.all {
		errs = append(errs, plane.Stop())
	}
	return errors.Join(errs...)
}
