package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestShow(t *testing.T) {
	type want struct{ out, times, failures string }
	passing := `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: something\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:2: note: 12 renderings\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t1.6s\n"}
{"Action":"pass","Package":"p","Elapsed":1.6}
`
	cases := map[string]struct {
		reason, in string
		want       want
	}{
		"Passes": {
			"Of what passes there is a line for the package, and what the test notes.", passing,
			want{"    a_test.go:2: note: 12 renderings\nok  \tp\t1.6s\n", "1.500\tp\tTestA\n", ""},
		},
		"Fails": {
			"Of what fails there is everything.",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: got 1\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL: TestA (0.50s)\n"}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0.5}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.6s\n"}
{"Action":"fail","Package":"p","Elapsed":0.6}
`,
			want{"    a_test.go:1: got 1\n--- FAIL: TestA (0.50s)\nFAIL\tp\t0.6s\n", "0.500\tp\tTestA\n", "p\t^TestA$\n"},
		},
		"FailsWithASubtest": {
			"What is run again is the test, not its parts.",
			`{"Action":"fail","Package":"p","Test":"TestA/b","Elapsed":0.5}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0.5}
{"Action":"fail","Package":"p","Elapsed":0.6}
`,
			want{"", "0.500\tp\tTestA/b\n0.500\tp\tTestA\n", "p\t^TestA$\n"},
		},
		"DrawsWhatItTries": {
			"A second attempt would draw something else and hide what the first one found.",
			`{"Action":"fail","Package":"p","Test":"TestMoveSimulation","Elapsed":0.5}
{"Action":"fail","Package":"p","Elapsed":0.6}
`,
			want{"", "0.500\tp\tTestMoveSimulation\n", "!\tTestMoveSimulation of p draws what it tries\n"},
		},
		"Panics": {
			"Tests after a panic did not run.",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: oops\n"}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0.5}
{"Action":"fail","Package":"p","Elapsed":0.6}
`,
			want{"panic: oops\n", "0.500\tp\tTestA\n", "p\t^TestA$\n!\tp failed as a whole: panic: oops\n"},
		},
		"Races": {
			"A second attempt would hide a data race.",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"WARNING: DATA RACE\n"}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0.5}
{"Action":"fail","Package":"p","Elapsed":0.6}
`,
			want{"WARNING: DATA RACE\n", "0.500\tp\tTestA\n", "p\t^TestA$\n!\tp failed as a whole: WARNING: DATA RACE\n"},
		},
		"DoesNotCompile": {
			"What the compiler says is shown.",
			`{"Action":"build-output","ImportPath":"p","Output":"a.go:1:1: syntax error\n"}
{"Action":"build-fail","ImportPath":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}
`,
			want{"a.go:1:1: syntax error\nFAIL\tp [build failed]\n", "", "!\tp failed as a whole: see above\n"},
		},
		"Suite": {
			"A suite of Ginkgo is one test for go, and tells the times of its specs itself.",
			`{"Action":"output","Package":"p","Test":"TestSuite","Output":"Running Suite: Suite - /p\n"}
{"Action":"pass","Package":"p","Test":"TestSuite","Elapsed":99}
`,
			want{"", "", ""},
		},
		"SuiteFails": {
			"What to run again of a suite of Ginkgo is written by the suite.",
			`{"Action":"output","Package":"p","Test":"TestSuite","Output":"Running Suite: Suite - /p\n"}
{"Action":"fail","Package":"p","Test":"TestSuite","Elapsed":99}
{"Action":"fail","Package":"p","Elapsed":99}
`,
			want{"Running Suite: Suite - /p\n", "", "?\tp\n"},
		},
		"NoEvent": {"What is no event is shown as it is.", "go: downloading x\n", want{"go: downloading x\n", "", ""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out, times, failures strings.Builder
			if err := show(strings.NewReader(tc.in), &out, &times, &failures); err != nil {
				t.Fatalf("%s\n%v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, want{out.String(), times.String(), failures.String()}, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "times")
	if tests, err := read(path); err != nil || tests != nil {
		t.Fatalf("got %v, %v of a file that does not exist, want nothing", tests, err)
	}
	var lines strings.Builder
	for i := range 2 * slowest {
		fmt.Fprintf(&lines, "%d.250\tsuite\tspec %d\n", i, i)
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	tests, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	report(&out, 100*time.Second, []timed{{90 * time.Second, 2 * time.Minute, "test-unit"}, {30 * time.Second, 5 * time.Second, "test-e2e"}}, tests)
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"Time of each tier, and of processors:", "   1m30s     2m0s  test-unit", "     30s       5s  test-e2e", "   1m40s     2m5s  all", "",
		"The slowest of 40 tests and specs:", "   39.2s  suite: spec 39",
	}
	if diff := cmp.Diff(want, got[:len(want)]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if last := got[len(got)-1]; len(got) != len(want)+slowest-1 || last != "   20.2s  suite: spec 20" {
		t.Errorf("got %d lines, the last %q, want the %d slowest", len(got), last, slowest)
	}
}
