// Package times has a suite of Ginkgo say how long its specs took, if somebody wants to know: `make test` prints the slowest. A suite imports it for
// that, and for nothing else.
package times

import (
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // as in the suites
)

// File is the environment variable that names the file. Each line of it has seconds, a suite or package, and a spec or test, with tabs between them.
const File = "ARCHELON_TIMES"

var _ = ReportAfterSuite("how long specs took", func(report Report) {
	path := os.Getenv(File)
	if path == "" {
		return
	}
	var lines strings.Builder
	for _, spec := range report.SpecReports {
		if text := spec.FullText(); text != "" && spec.RunTime > 0 {
			_, _ = fmt.Fprintf(&lines, "%.3f\t%s\t%s\n", spec.RunTime.Seconds(), report.SuiteDescription, text)
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(lines.String())
		_ = file.Close()
	}
	if err != nil {
		AbortSuite("writing the times of specs: " + err.Error())
	}
})
