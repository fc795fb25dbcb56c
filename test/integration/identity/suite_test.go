// Package identity_test shows the controller of OCIClusterIdentities against a real kube-apiserver, with the CRDs of
// CAPOCI and with our own.
package identity_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/archelon-io/archelon/test/report" // times and failures of the specs
)

func TestIdentity(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	RunSpecs(t, "OCI cluster identity")
}
