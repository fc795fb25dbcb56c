// Package metal3_test tells the stories of the HostClaim proposal with everything real that can be: the manager with
// the arguments and the permissions of the chart, the baremetal-operator of Metal3, clusterctl, and API servers.
// Tenants act with tokens of their own.
package metal3_test

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"

	_ "github.com/archelon-io/archelon/test/report" // times and failures of the specs
	"github.com/archelon-io/archelon/test/stage"
)

// manager is the path of the program under test.
var manager string

func TestMetal3(t *testing.T) {
	RegisterFailHandler(Fail)
	ctrl.SetLogger(GinkgoLogr)
	RunSpecs(t, "Metal3")
}

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	// Where no event tells it to, the operator looks again after a minute.
	SetDefaultEventuallyTimeout(4 * time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	dir, err := os.MkdirTemp("", "archelon-metal3-e2e-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	manager, err = stage.BuildManager(ctx, dir, true)
	Expect(err).NotTo(HaveOccurred())
})
