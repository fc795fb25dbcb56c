// Package hostclaim_test shows the controllers of HostClaims against a real kube-apiserver, with the CRDs of Metal3 and
// our own, and with the permissions that the chart grants.
package hostclaim_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"

	_ "github.com/archelon-io/archelon/test/report" // times and failures of the specs
)

func TestHostClaim(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	ctrl.SetLogger(GinkgoLogr)
	RunSpecs(t, "HostClaim")
}
