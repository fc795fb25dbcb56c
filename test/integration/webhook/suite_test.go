// Package webhook_test shows the admission webhook of the real manager, called by a real kube-apiserver.
package webhook_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestWebhook(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Admission webhook")
}
