package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/archelon-io/archelon/test/stage"
	_ "github.com/archelon-io/archelon/test/times"
)

// patience is how long an expected change may take on a loaded machine under the race detector. Nothing here
// measures time; that is done where it says so.
var patience = time.Minute

// manager is the path of the program under test.
var manager string

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "e2e")
}

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	if *onKind {
		patience *= 2 // Pods start and end
	}
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	if *onKind {
		startKind(ctx)
		return
	}
	dir, err := os.MkdirTemp("", "archelon-e2e-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	manager, err = stage.BuildManager(ctx, dir, true)
	Expect(err).NotTo(HaveOccurred())
})

// Of a long log often only the end is kept, and the runner's summary has the places alone: who starts the runner prints the file of this name last.
// Several processes have no output of their own here.
var _ = ReportAfterSuite("why specs failed", func(report Report) {
	path := os.Getenv("ARCHELON_E2E_FAILURES")
	if path == "" {
		return
	}
	var text strings.Builder
	for _, spec := range report.SpecReports {
		if !spec.Failed() {
			continue
		}
		_, _ = fmt.Fprintf(&text, "FAILED %s\n%s\n%s\n", spec.FullText(), frames(spec.Failure.Location.FullStackTrace), ends(spec.Failure.Message, 300))
		for _, more := range spec.AdditionalFailures {
			_, _ = fmt.Fprintf(&text, "and: %s\n", ends(more.Failure.Message, 150))
		}
	}
	Expect(os.WriteFile(path, []byte(text.String()), 0o600)).To(Succeed())
})

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
