package stage

import (
	"context"
	"errors"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/realrancher"
)

// Real is a real Rancher on which stages are set, one after the other. What imports leave behind is theirs to remove: a
// Rancher that runs cannot be wiped.
type Real struct {
	World *realrancher.World
	// Failed is told of errors of those methods of Rancher that return none.
	Failed func(error)
}

// start sets a stage there.
func (r *Real) start(ctx context.Context, name string) (*Stage, error) {
	management, err := r.World.Management.Lend(name, func() {})
	if err != nil {
		return nil, err
	}
	s := &Stage{Management: management, Client: r.World.Client, Rancher: r.World.Control(r.Failed), real: r}
	if err := s.Prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// workload lends the workload cluster, which is for one at a time.
func (r *Real) workload(name string) (*env.ControlPlane, error) {
	return r.World.Workload.Lend(name, func() {})
}
