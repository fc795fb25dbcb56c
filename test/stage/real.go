package stage

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/kind"
	"github.com/archelon-io/archelon/test/realrancher"
)

// Real is a real Rancher on which stages are set, one after the other. What imports leave behind is theirs to remove: a
// Rancher that runs cannot be wiped.
type Real struct {
	World *realrancher.World
	// Kind is where it is installed, and the manager is then; nil if its programs run beside control planes of the test's.
	Kind *Kind
	// Failed is told of errors of those methods of Rancher that return none.
	Failed func(error)
}

// RealOnKind builds the image of the manager and installs Rancher. Its images are the archives of a directory, as
// docker save writes them, which are loaded into all nodes; without a directory the clusters pull them.
func RealOnKind(ctx context.Context, world *kind.World, chart realrancher.Chart, archives string, out io.Writer, failed func(error)) (*Real, error) {
	if err := loadImages(ctx, managerImages(world)); err != nil {
		return nil, err
	}
	if archives != "" {
		if err := loadArchives(ctx, world, archives); err != nil {
			return nil, err
		}
	}
	rancher, err := realrancher.Install(ctx, world, chart)
	if err != nil {
		return nil, err
	}
	return &Real{World: rancher, Kind: &Kind{world: world, out: out, failed: failed}, Failed: failed}, nil
}

// loadArchives loads all images of a directory, and has the clusters pull no other ones of these names.
func loadArchives(ctx context.Context, world *kind.World, dir string) error {
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return err
	}
	for _, cluster := range append([]*kind.Cluster{world.Management}, world.Workloads...) {
		if err := cluster.KeepImages(ctx); err != nil {
			return err
		}
		for _, archive := range archives {
			if err := cluster.Load(archive); err != nil {
				return err
			}
		}
	}
	return nil
}

// start sets a stage there.
func (r *Real) start(ctx context.Context, name string) (*Stage, error) {
	s := &Stage{Client: r.World.Client, Rancher: r.World.Control(r.Failed), real: r}
	if r.Kind != nil {
		return s, r.Kind.lend(s)
	}
	var err error
	if s.Management, err = r.World.Management.Lend(name, func() {}); err != nil {
		return nil, err
	}
	if err := s.Prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// workload lends the workload cluster, which is for one at a time.
func (r *Real) workload(name string) (*env.ControlPlane, error) {
	return r.World.Workload.Lend(name, func() {})
}
