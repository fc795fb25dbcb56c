package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// fixture is that of package importing, with managers that are programs or, on kind, releases of the chart.
type fixture struct{ *importing.Fixture }

func newFixture(ctx context.Context, opts stage.Options) *fixture {
	GinkgoHelper()
	return fixtureOn(ctx, startStage(ctx, opts), env.Options{Name: opts.Name + "-workload", Audit: true})
}

// fixtureOn adds a workload cluster to a stage.
func fixtureOn(ctx context.Context, s *stage.Stage, workload env.Options) *fixture {
	GinkgoHelper()
	return &fixture{importing.New(ctx, s, workload)}
}

// without returns a fixture without a real workload cluster.
func without(s *stage.Stage) *fixture { return &fixture{&importing.Fixture{Stage: s}} }

// startManager runs the manager until the node ends, and until it is ready.
func (f *fixture) startManager(ctx context.Context, args ...string) {
	GinkgoHelper()
	f.StartLeader(ctx, manager, args...)
}
