// Package import_test shows the import alone: its controller runs in the process of the test, against real API servers,
// Rancher's stand-in, and light workload clusters. Permissions and arguments are those of the chart.
package import_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/archelon-io/archelon/test/report"
	"github.com/archelon-io/archelon/test/stage"
)

// patience is how long an expected change may take on a loaded machine under the race detector. Nothing here measures
// time; that is done where it says so.
const patience = 2 * time.Minute

// planes are what containers use one after the other.
var planes = stage.NewKept()

func TestImport(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Import")
}

var _ = BeforeSuite(func(context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	journal.listen()
	DeferCleanup(planes.Stop)
})
