package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/archelon-io/archelon/test/report"
	"github.com/archelon-io/archelon/test/stage"
)

// patience is how long an expected change may take on a loaded machine under the race detector. Nothing here
// measures time; that is done where it says so.
var patience = time.Minute

// manager is the path of the program under test.
var manager string

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "e2e")
}

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	if *onKind {
		patience *= 2 // Pods start and end
	}
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	if *onKind {
		startKind(ctx)
		return
	}
	DeferCleanup(planes.Stop)
	dir, err := os.MkdirTemp("", "archelon-e2e-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	manager, err = stage.BuildManager(ctx, dir, true)
	Expect(err).NotTo(HaveOccurred())
})
