// Package edge_test shows a management cluster whose Rancher is in another cluster: two real API servers,
// Rancher's stand-in in one, CAPI Clusters and the manager in the other. Permissions and arguments are those
// of the chart, on both sides.
package edge_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/archelon-io/archelon/test/report" // times and failures of the specs
)

func TestEdge(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Edge")
}

var _ = BeforeSuite(func() {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
})
