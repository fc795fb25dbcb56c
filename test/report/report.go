// Package report writes how long specs of a suite of Ginkgo took, why they failed and which to run again, to the files
// that environment variables name: `make test` prints the slowest and gives failed specs a second attempt, and .ci/run
// prints what failed. A suite imports it for that, and for nothing else.
package report

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

const (
	// Times is the environment variable that names a file for times. Each of its lines has seconds, a suite or package,
	// and a spec or test, with tabs between them.
	Times = "ARCHELON_TIMES"
	// Failures is the environment variable that names a file for what failed, in short.
	Failures = "ARCHELON_E2E_FAILURES"
	// Again is the environment variable that names a file for what to run again. Each of its lines has the directory of
	// a suite and a regular expression that selects specs, with a tab between them, or "!" and why there must be no
	// second attempt. hack/tiers reads it.
	Again = "ARCHELON_FAILED"
)

var _ = ReportAfterSuite("how long specs took", func(report Report) {
	var lines strings.Builder
	for i := range report.SpecReports {
		spec := &report.SpecReports[i]
		if text := spec.FullText(); text != "" && spec.RunTime > 0 {
			_, _ = fmt.Fprintf(&lines, "%.3f\t%s\t%s\n", spec.RunTime.Seconds(), report.SuiteDescription, text)
		}
	}
	write(Times, lines.String())
})

// Of a long log often only the end is kept, and the runner's summary has the places alone: who starts the runner prints
// the file last. Several processes have no output of their own here.
var _ = ReportAfterSuite("why specs failed", func(report Report) {
	var text strings.Builder
	for i := range report.SpecReports {
		spec := &report.SpecReports[i]
		if !spec.Failed() {
			continue
		}
		_, _ = fmt.Fprintf(&text, "FAILED %s\n%s\n%s\n", spec.FullText(), frames(spec.Failure.Location.FullStackTrace), ends(spec.Failure.Message, 300))
		for _, more := range spec.AdditionalFailures {
			_, _ = fmt.Fprintf(&text, "and: %s\n", ends(more.Failure.Message, 150))
		}
	}
	write(Failures, text.String())
})

var _ = ReportAfterSuite("what to run again", func(report Report) {
	var lines strings.Builder
	for i := range report.SpecReports {
		if spec := &report.SpecReports[i]; spec.Failed() {
			_, _ = lines.WriteString(again(report.SuitePath, spec))
		}
	}
	if reasons := report.SpecialSuiteFailureReasons; len(reasons) > 0 {
		_, _ = fmt.Fprintf(&lines, "!\t%s\n", strings.Join(reasons, ", "))
	}
	write(Again, lines.String())
})

// again returns the line for a spec that failed. A spec of an ordered container needs those before it, so all specs of
// its outermost container are run.
func again(suite string, spec *SpecReport) string {
	text := spec.FullText()
	switch {
	case spec.State == types.SpecStatePanicked || spec.State == types.SpecStateAborted || spec.State == types.SpecStateInterrupted:
		return fmt.Sprintf("!\t%s: %s\n", spec.State, text)
	case spec.LeafNodeType != types.NodeTypeIt:
		text = "" // A node of the suite, such as BeforeSuite: all specs depend on it.
	case spec.IsInOrderedContainer:
		text = spec.ContainerHierarchyTexts[0]
	}
	return fmt.Sprintf("%s\t%s\n", suite, regexp.QuoteMeta(strings.ReplaceAll(text, "\n", " ")))
}

// write adds text to the file that a variable names, if it does.
func write(variable, text string) {
	path := os.Getenv(variable)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
		_ = file.Close()
	}
	if err != nil {
		AbortSuite("writing a report: " + err.Error())
	}
}

// frames returns the lines of specs in a stack, the helpers' too.
func frames(stack string) string {
	return strings.Join(regexp.MustCompile(`\w+_test\.go:\d+`).FindAllString(stack, -1), " < ")
}

// ends returns the first and the last n bytes of a text.
func ends(text string, n int) string {
	if len(text) <= 2*n {
		return text
	}
	return text[:n] + "\n…\n" + text[len(text)-n:]
}
