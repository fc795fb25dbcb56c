// Package status_test shows "archelon status" against a real kube-apiserver with the CRDs of CAPI.
package status_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/archelon-io/archelon/test/report" // times and failures of the specs
)

func TestStatus(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "Status")
}
