// Package hub_test shows one Archelon beside Rancher that imports from many management clusters: real API servers,
// Rancher's stand-in in one of them, CAPI Clusters in the others.
package hub_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"

	_ "github.com/archelon-io/archelon/test/report" // times and failures of the specs
)

func TestHub(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Hub")
}

var _ = BeforeSuite(func() {
	// How soon a connection on which nothing comes is asked whether it is one, and how soon it has to answer:
	// as for users, in less time.
	GinkgoT().Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	GinkgoT().Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	ctrl.SetLogger(GinkgoLogr)
})
