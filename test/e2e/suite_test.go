package e2e

import (
	"context"
	"flag"
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
var patience = 2 * time.Minute

// manager is the path of the program under test, and built the directory in which one process has built it for all.
var manager, built string

// race is without meaning on kind.
var race = flag.Bool("archelon.race", true, "build programs with the race detector")

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "e2e")
}

var _ = SynchronizedBeforeSuite(func(ctx context.Context) []byte {
	if *onKind {
		return nil
	}
	var err error
	built, err = os.MkdirTemp("", "archelon-e2e-")
	Expect(err).NotTo(HaveOccurred())
	path, err := stage.BuildManager(ctx, built, *race)
	Expect(err).NotTo(HaveOccurred())
	return []byte(path)
}, func(ctx context.Context, path []byte) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	if *onKind {
		patience *= 2 // Pods start and end
	}
	if *realPrograms != "" || *realChart != "" {
		patience = realPatience
	}
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	if *onKind {
		startKind(ctx)
		return
	}
	if *realPrograms != "" {
		startReal(ctx)
	}
	DeferCleanup(planes.Stop)
	manager = string(path)
})

// The other processes have ended when the second function runs, in the one that built the program.
var _ = SynchronizedAfterSuite(func() {}, func() { Expect(os.RemoveAll(built)).To(Succeed()) })
