package main

import (
	"context"
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/archelon-io/archelon/test/report"
	"github.com/archelon-io/archelon/test/stage"
)

// manager is the path of the program that is measured.
var manager string

func TestBench(t *testing.T) {
	silence()
	RegisterFailHandler(Fail)
	RunSpecs(t, "Benchmark")
}

// With the race detector it is the program of the end-to-end tests, so that there is one less to compile.
var _ = BeforeSuite(func(ctx context.Context) {
	dir, err := os.MkdirTemp("", "archelon-bench-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	manager, err = stage.BuildManager(ctx, dir, true)
	Expect(err).NotTo(HaveOccurred())
})
