// Package docs_test keeps the documentation true: its tables are compared with the code, in both directions, and
// its links must lead somewhere.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the root of the repository, seen from this package.
const root = ".."

// row is a line of a Markdown table; its cells are trimmed.
type row []string

// code returns the parts of a cell that are set as code.
func (r row) code(cell int) []string {
	var parts []string
	for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(r[cell], -1) {
		parts = append(parts, match[1])
	}
	return parts
}

// tables returns the rows of all tables below a heading of a file, up to the next heading of the same or a higher
// level, without their heads. It fails the test if there are none.
func tables(t *testing.T, file, heading string) []row {
	t.Helper()
	level := strings.Count(heading, "#")
	var rows []row
	var inside, table bool
	for line := range strings.Lines(read(t, file)) {
		line = strings.TrimSpace(line)
		switch {
		case line == heading:
			inside = true
		case inside && isHeading(line) && len(line)-len(strings.TrimLeft(line, "#")) <= level:
			inside = false
		case inside && strings.HasPrefix(line, "|---"):
			table = true
		case inside && table && strings.HasPrefix(line, "|"):
			rows = append(rows, split(line))
		default:
			table = false
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no table below %q", file, heading)
	}
	return rows
}

func isHeading(line string) bool { return regexp.MustCompile(`^#+ `).MatchString(line) }

// split takes a line of a table apart. A bar that is escaped does not end a cell.
func split(line string) row {
	const bar = "\x00"
	line = strings.ReplaceAll(strings.Trim(line, "|"), `\|`, bar)
	var cells row
	for cell := range strings.SplitSeq(line, "|") {
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), bar, "|"))
	}
	return cells
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// pages returns all Markdown files of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"bin", "_output", "testdata"}, entry.Name())):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(withoutCode(read(t, page)), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), filepath.FromSlash(target))
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, match[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", page, match[1], file)
			}
		}
	}
}

// anchors returns the names that a Markdown viewer gives to the headings of a page.
func anchors(content string) []string {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	var names []string
	for line := range strings.Lines(withoutCode(content)) {
		if line = strings.TrimSpace(line); isHeading(line) {
			name := drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#"))), "")
			names = append(names, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}

// withoutCode removes fenced blocks, which hold no links and no headings.
func withoutCode(content string) string {
	return fence.ReplaceAllString(content, "")
}

func TestADRs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("adr", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	index := read(t, filepath.Join("adr", "README.md"))
	for _, file := range files {
		name := filepath.Base(file)
		if name == "README.md" {
			continue
		}
		if !regexp.MustCompile(`^\d{4}-[a-z0-9-]+\.md$`).MatchString(name) {
			t.Errorf("%s is not named NNNN-title.md", file)
		}
		if !strings.Contains(index, "("+name+")") {
			t.Errorf("adr/README.md does not list %s", name)
		}
		content := read(t, file)
		parts := []string{"- Status: ", "## What happened", "## Decision", "## Rejected", "## What operators notice"}
		if strings.Contains(content, "\n## Context\n") { // ADR 0001 says what becomes of the older form.
			parts = []string{"- Status: ", "## Context", "## Decision", "## Alternatives", "## Consequences"}
		}
		if strings.Contains(content, "\n- Status: superseded by ") {
			parts = parts[:1] // What is left of it is a few sentences.
		}
		for _, part := range parts {
			if !strings.Contains(content, "\n"+part) {
				t.Errorf("%s lacks %q", file, part)
			}
		}
	}
}
