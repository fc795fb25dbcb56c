// Package check_test shows "archelon check" against a real kube-apiserver, with Rancher's settings and a server that
// answers under its address.
package check_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/archelon-io/archelon/test/report" // times and failures of the specs
)

func TestCheck(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Check")
}
