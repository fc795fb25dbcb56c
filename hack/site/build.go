package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// start is the page that a reader sees first.
const start = "docs/README.md"

// theme is how pages look. There is nothing in it that comes from elsewhere.
//
//go:embed theme
var theme embed.FS

// site is all pages, by the path of their Markdown in the repository.
type site struct {
	root  string
	pages map[string]*page
	files map[string]bool // others that pages show, to be copied
}

// build writes the site into an empty directory.
func build(root, out string) error {
	if out == "" {
		return errors.New("build needs --out")
	}
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", out)
	}
	s := &site{root: root, pages: map[string]*page{}, files: map[string]bool{}}
	if err := s.load(); err != nil {
		return err
	}
	return s.write(out)
}

// load reads all pages below docs, and all pages that these lead to.
func (s *site) load() error {
	var next []string
	err := filepath.WalkDir(filepath.Join(s.root, "docs"), func(file string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".md" {
			file, err = filepath.Rel(s.root, file)
			next = append(next, filepath.ToSlash(file))
		}
		return err
	})
	if err != nil {
		return err
	}
	for len(next) > 0 {
		source := next[0]
		next = next[1:]
		if s.pages[source] != nil {
			continue
		}
		content, err := os.ReadFile(filepath.Join(s.root, source))
		if err != nil {
			return err
		}
		p := parse(source, content)
		s.pages[source] = p
		for _, link := range p.links() {
			if target, _ := p.resolve(link); path.Ext(target) == ".md" && exists(s.root, target) {
				next = append(next, target)
			}
		}
	}
	if s.pages[start] == nil {
		return fmt.Errorf("there is no %s", start)
	}
	return nil
}

func exists(root, file string) bool {
	_, err := os.Stat(filepath.Join(root, file))
	return err == nil
}

// sorted returns the pages in the order of their sources, so that each run writes the same.
func (s *site) sorted() []*page {
	var pages []*page
	for _, p := range s.pages {
		pages = append(pages, p)
	}
	slices.SortFunc(pages, func(a, b *page) int { return strings.Compare(a.source, b.source) })
	return pages
}

func (s *site) write(out string) error {
	layout, err := template.ParseFS(theme, "theme/layout.html")
	if err != nil {
		return err
	}
	var index []section
	for _, p := range s.sorted() {
		body, err := s.render(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.source, err)
		}
		index = append(index, p.sections()...)
		var b strings.Builder
		if err := layout.Execute(&b, view{
			Title: p.title, Start: p.source == start, Top: strings.Repeat("../", strings.Count(p.path, "/")),
			Groups: s.navigation(p), Contents: p.contents(), Body: template.HTML(body), Source: repository + "/blob/main/" + p.source,
		}); err != nil {
			return err
		}
		if err := save(out, p.path, []byte(b.String())); err != nil {
			return err
		}
	}
	content, err := json.Marshal(index)
	if err != nil {
		return err
	}
	// A script instead of JSON: browsers do not load that for pages that are opened as files.
	if err := save(out, "search-index.js", fmt.Appendf(nil, "window.searchIndex = %s;\n", content)); err != nil {
		return err
	}
	return s.copy(out)
}

// view is what the layout shows of a page.
type view struct {
	Title    string
	Start    bool
	Top      string // the way to the root of the site
	Groups   []group
	Contents []heading
	Body     template.HTML
	Source   string
}

// copy writes what pages need besides themselves.
func (s *site) copy(out string) error {
	for _, name := range []string{"style.css", "site.js"} {
		content, err := theme.ReadFile("theme/" + name)
		if err != nil {
			return err
		}
		if err := save(out, name, content); err != nil {
			return err
		}
	}
	s.files["charts/archelon/icon.svg"] = true
	for file := range s.files {
		content, err := os.ReadFile(filepath.Join(s.root, file))
		if err != nil {
			return err
		}
		if err := save(out, placeOf(file), content); err != nil {
			return err
		}
	}
	return nil
}

func save(out, name string, content []byte) error {
	file := filepath.Join(out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
