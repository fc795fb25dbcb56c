package e2e

import (
	"context"
	"flag"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"

	"github.com/archelon-io/archelon/test/kind"
	"github.com/archelon-io/archelon/test/realrancher"
	"github.com/archelon-io/archelon/test/stage"
)

// Each of the first two runs those scenarios that are labelled rancher with a real Rancher instead of the stand-in.
var (
	realPrograms = flag.String("archelon.rancher", "", "the directory with the programs of a real Rancher; the suite has to run below test/realrancher/run.sh then")
	realChart    = flag.String("archelon.rancher.chart", "", "with -archelon.kind, the chart of a real Rancher: whatever Helm takes for one")
	realValues   = flag.String("archelon.rancher.values", "", "a file with further values of that chart")
	realImages   = flag.String("archelon.rancher.images", "", "a directory with archives of images that the clusters are not to pull")
)

// realPatience is how long a change may take that a real Rancher has a part in: it looks at some things every 15 s, and
// its clean-up sleeps for a minute.
const realPatience = 4 * time.Minute

// realStage is where stages are set with -archelon.rancher, nil without.
var realStage *stage.Real

// startReal starts Rancher for the time of the suite.
func startReal(ctx context.Context) {
	GinkgoHelper()
	world, err := realrancher.Start(ctx, realrancher.Options{Programs: *realPrograms, Out: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(world.Stop)
	realStage = &stage.Real{World: world, Failed: failSpec}
}

// installReal installs Rancher on clusters of kind for the time of the suite.
func installReal(ctx context.Context, world *kind.World) {
	GinkgoHelper()
	chart := realrancher.Chart{Chart: *realChart, Values: *realValues}
	var err error
	realStage, err = stage.RealOnKind(ctx, world, chart, *realImages, GinkgoWriter, failSpec)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(realStage.World.Stop)
	kindStage = realStage.Kind
}

// A Rancher cluster that does not get on says why in its conditions.
var _ = ReportAfterEach(func(ctx SpecContext, report SpecReport) {
	if realStage == nil || !report.Failed() {
		return
	}
	clusters := &managementv3.ClusterList{}
	if err := realStage.World.Client.List(ctx, clusters); err != nil {
		GinkgoWriter.Println(err)
	}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		GinkgoWriter.Printf("\n%s, annotations %v\n", cluster.Name, cluster.Annotations)
		for _, c := range cluster.Status.Conditions {
			GinkgoWriter.Printf("  %s=%s since %s: %s %s\n", c.Type, c.Status, c.LastUpdateTime, c.Reason, c.Message)
		}
	}
})
