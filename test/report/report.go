// Package report has a suite of Ginkgo say how long its specs took and why they failed, if somebody wants to know:
// `make test` prints the slowest, and .ci/run what failed. A suite imports it for that, and for nothing else.
package report

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
)

const (
	// Times is the environment variable that names a file for times. Each of its lines has seconds, a suite or package,
	// and a spec or test, with tabs between them.
	Times = "ARCHELON_TIMES"
	// Failures is the environment variable that names a file for what failed, in short.
	Failures = "ARCHELON_E2E_FAILURES"
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
