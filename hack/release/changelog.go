package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// section is what the changelog says of one version.
type section struct {
	text    string
	changes []change
}

// change is one of its items, in the form that Artifact Hub reads.
type change struct {
	Kind        string `yaml:"kind"`
	Description string `yaml:"description"`
}

var (
	errVersion = errors.New("the version has to be the tag of a release, as v1.2.3 or v1.2.3-rc.1 is")

	tag = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z]+([.-][0-9A-Za-z]+)*)?$`)
)

// read returns what a changelog says of the version of a tag.
func read(file, version string) (section, error) {
	if !tag.MatchString(version) {
		return section{}, fmt.Errorf("%q: %w", version, errVersion)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return section{}, err
	}
	found, err := parse(string(content), strings.TrimPrefix(version, "v"))
	if err != nil {
		return section{}, fmt.Errorf("%s: %w", file, err)
	}
	return found, nil
}

// parse finds the section of a version, as https://keepachangelog.com has it: "## [1.2.3] - 2026-01-02", kinds of
// changes as headings below it, and changes as items below these. An item may have further lines, which are indented.
func parse(content, version string) (section, error) {
	var lines []string
	inside := false
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, " \n")
		if strings.HasPrefix(line, "## ") {
			inside = strings.HasPrefix(line, "## ["+version+"] - ")
			continue
		}
		if inside {
			lines = append(lines, line)
		}
	}
	found := section{text: strings.TrimSpace(strings.Join(lines, "\n"))}
	kind := ""
	for _, line := range lines {
		heading, isHeading := strings.CutPrefix(line, "### ")
		item, isItem := strings.CutPrefix(line, "- ")
		switch last := len(found.changes) - 1; {
		case isHeading:
			kind = strings.ToLower(heading)
			if !slices.Contains([]string{"added", "changed", "deprecated", "removed", "fixed", "security"}, kind) {
				return section{}, fmt.Errorf("version %s has changes of kind %q, which is none", version, heading)
			}
		case isItem && kind == "":
			return section{}, fmt.Errorf("version %s has a change without a kind: %q", version, item)
		case isItem:
			found.changes = append(found.changes, change{kind, item})
		case strings.HasPrefix(line, "  ") && last >= 0:
			found.changes[last].Description += " " + strings.TrimSpace(line)
		}
	}
	if len(found.changes) == 0 {
		return section{}, fmt.Errorf("there is no section \"## [%s] - DATE\" with changes", version)
	}
	return found, nil
}
