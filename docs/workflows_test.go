package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Workflows run targets that there are, and actions that nobody can change afterwards: the comment behind the commit
// says which version it is. actionlint, which make lint runs, checks the rest.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	makefile := read(t, filepath.Join(root, "Makefile"))
	actions, targets := 0, 0
	for _, file := range files {
		content := read(t, file)
		for _, match := range regexp.MustCompile(`(?m)uses: (\S+)(.*)$`).FindAllStringSubmatch(content, -1) {
			if actions++; !strings.HasPrefix(match[1], "./") && !regexp.MustCompile(`^[^@]+@[0-9a-f]{40} # v[0-9.]+$`).MatchString(match[1]+match[2]) {
				t.Errorf("%s uses %s%s, which is not a commit with its version behind it", file, match[1], match[2])
			}
		}
		// Those of a matrix are items below its key target.
		for _, match := range regexp.MustCompile(`(?m)(?:make(?: --silent)? |^ {10}- )([a-z][a-z0-9-]*)(?: |$)`).FindAllStringSubmatch(content, -1) {
			if targets++; !strings.Contains(makefile, "\n"+match[1]+":") {
				t.Errorf("%s names target %s, which the Makefile does not have", file, match[1])
			}
		}
	}
	if actions < 10 || targets < 8 {
		t.Errorf("found %d actions and %d targets", actions, targets)
	}
}
