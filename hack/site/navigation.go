package main

import (
	"path"
	"slices"
	"strings"
)

// group is a part of the navigation.
type group struct {
	Title string
	Items []item
	Open  bool
}

type item struct {
	Title, URL string
	Here       bool
}

type shelf struct {
	title, folder string
	first         []string
}

// shelves are the groups with the pages that each begins with. A page that is on none is put on the shelf of its
// folder, so that a new page needs nothing here.
func shelves() []shelf {
	return []shelf{
		{"Start", "docs", []string{"docs/README.md", "docs/pictures.md"}},
		{"Use", "", []string{"docs/operations/import.md", "docs/operations/conditions.md", "docs/operations/status.md", "docs/operations/plan.md"}},
		{"Install and run", "docs/operations", []string{
			"docs/operations/install.md", "docs/operations/turtles.md", "docs/operations/sharding.md", "docs/operations/sizing.md", "docs/operations/upgrade.md",
			"docs/operations/backup.md", "docs/operations/uninstall.md",
		}},
		{"At night", "docs/operations/runbooks", []string{
			"docs/operations/troubleshooting.md", "docs/operations/alerts.md", "docs/operations/metrics.md",
		}},
		{"Features", "", []string{"docs/operations/agent-delivery.md", "docs/operations/caprke2.md", "docs/operations/identity.md", "docs/operations/hostclaim.md", "docs/operations/fleet.md"}},
		{"Look up", "charts/archelon", []string{
			"charts/archelon/README.md", "docs/operations/flags.md", "docs/operations/rbac.md", "docs/operations/admission.md", "docs/operations/glossary.md",
		}},
		{"Contribute", "docs/development", []string{"CONTRIBUTING.md"}},
		{"Project", "", []string{"README.md", "CHANGELOG.md", "SECURITY.md"}},
		{"Decisions", "docs/adr", []string{"docs/adr/README.md"}},
	}
}

// navigation returns all pages as seen from one of them.
func (s *site) navigation(from *page) []group {
	shelves := shelves()
	groups := make([]group, len(shelves))
	placed := map[string]bool{}
	put := func(shelf int, p *page) {
		placed[p.source] = true
		title, _, _ := strings.Cut(p.title, ": ")
		if p.source == "charts/archelon/README.md" {
			title = "Values of the chart" // Its heading is the name of the chart, as helm-docs writes it.
		}
		groups[shelf].Items = append(groups[shelf].Items, item{title, relative(from.path, p.path), p == from})
		groups[shelf].Open = groups[shelf].Open || p == from
	}
	for i, shelf := range shelves {
		groups[i].Title = shelf.title
		for _, source := range shelf.first {
			if p := s.pages[source]; p != nil {
				put(i, p)
			}
		}
	}
	for _, p := range s.sorted() {
		if placed[p.source] {
			continue
		}
		at := slices.IndexFunc(shelves, func(s shelf) bool { return s.folder == path.Dir(p.source) })
		if at < 0 && strings.HasPrefix(p.source, "test/") {
			at = slices.IndexFunc(shelves, func(s shelf) bool { return s.title == "Contribute" })
		}
		if at < 0 {
			at = slices.IndexFunc(shelves, func(s shelf) bool { return s.title == "Project" })
		}
		put(at, p)
	}
	return slices.DeleteFunc(groups, func(g group) bool { return len(g.Items) == 0 })
}
