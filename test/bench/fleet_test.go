package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBenchmarked(t *testing.T) {
	const output = `goos: linux
pkg: github.com/archelon-io/archelon/providers/capi
BenchmarkFleet-2   	       1	17000000000 ns/op	       120.5 KiB/cluster	         0 failed-reconciles
PASS
`
	want := []figure{{"120.5", "KiB/cluster"}, {"0", "failed-reconciles"}}
	if diff := cmp.Diff(want, benchmarked(output), cmp.AllowUnexported(figure{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if found := benchmarked("FAIL\n"); len(found) > 0 {
		t.Errorf("in nothing there is %v", found)
	}
}
