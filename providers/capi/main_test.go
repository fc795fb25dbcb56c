package capi

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if os.Getenv(servesClusters) != "" {
		serveClusters()
		return
	}
	os.Exit(m.Run())
}
