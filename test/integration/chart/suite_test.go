// Package chart_test shows what Helm and a real API server make of changes between releases of the chart: what cannot
// be changed, and what others leave behind. No Pods run.
package chart_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/archelon-io/archelon/test/report"
)

func TestChart(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Chart")
}
