package e2e

import (
	"bytes"
	"context"
	"flag"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/kind"
	"github.com/archelon-io/archelon/test/stage"
)

var (
	// onKind runs those scenarios that are labelled kind on clusters of kind, with everything as Pods.
	onKind = flag.Bool("archelon.kind", false, "run on clusters of kind instead of on control planes of the tests' own")
	// keepKind is for people who write scenarios.
	keepKind = flag.String("archelon.kind.keep", "", "use the clusters of this name, make them if they are not there, and leave them")
)

// kindStage is where stages are set with -archelon.kind, nil without.
var kindStage *stage.Kind

// startKind makes the clusters for the time of the suite.
func startKind(ctx context.Context) {
	GinkgoHelper()
	workloads := 2
	if *realChart != "" {
		workloads = 1 // Rancher needs the room
	}
	world, err := kind.Start(ctx, kind.Options{Keep: *keepKind, Workloads: workloads, Out: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(world.Stop)
	if *realChart != "" {
		installReal(ctx, world)
		return
	}
	kindStage, err = stage.OnKind(ctx, world, GinkgoWriter, failSpec)
	Expect(err).NotTo(HaveOccurred())
}

// failSpec fails the spec that runs, from any goroutine.
func failSpec(err error) {
	defer GinkgoRecover()
	Fail(err.Error())
}

// planes are the control planes that containers use one after the other, unless they run Pods.
var planes = stage.NewKept()

// startStage sets a stage for the time of the node, on kind if that is asked for.
func startStage(ctx context.Context, opts stage.Options) *stage.Stage {
	GinkgoHelper()
	opts.Kind, opts.Real = kindStage, realStage
	if !opts.Workloads {
		opts.Kept = planes
	}
	s, err := stage.Start(ctx, opts)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
	s.Values = importing.Values()
	return s
}

// A Pod that does not run says why in its events.
var _ = ReportAfterEach(func(report SpecReport) {
	if kindStage == nil || !report.Failed() {
		return
	}
	var state bytes.Buffer
	for _, cluster := range append([]*kind.Cluster{kindStage.World().Management}, kindStage.World().Workloads...) {
		state.WriteString("\n" + cluster.Name + "\n")
		if err := cluster.Describe(&state); err != nil {
			state.WriteString(err.Error())
		}
	}
	GinkgoWriter.Println(state.String())
})
