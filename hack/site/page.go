package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// repository is where files are shown that are no pages.
const repository = "https://github.com/archelon-io/archelon"

// markdown reads what GitHub reads.
func markdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithRendererOptions(html.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(blocks{}, 100))),
	)
}

// page is a file of Markdown and what becomes of it.
type page struct {
	source  string // docs/operations/install.md
	path    string // operations/install.html
	title   string
	content []byte
	root    ast.Node
}

// heading is one that can be linked to.
type heading struct {
	Level    int
	ID, Text string
}

// section is what search finds: a heading and the words below it.
type section struct {
	Page string `json:"p"`
	Head string `json:"h"`
	URL  string `json:"u"`
	Text string `json:"t"`
}

// parse reads a page and names its headings as GitHub does.
func parse(source string, content []byte) *page {
	p := &page{source: source, path: placeOf(source), content: content}
	p.root = markdown().Parser().Parse(text.NewReader(content))
	p.title = source
	seen := map[string]int{}
	for _, h := range find[*ast.Heading](p) {
		words := p.words(h)
		if h.Level == 1 && p.title == source {
			p.title = words
		}
		id := anchor(words)
		if seen[id]++; seen[id] > 1 {
			id = fmt.Sprintf("%s-%d", id, seen[id]-1)
		}
		h.SetAttributeString("id", []byte(id))
	}
	return p
}

// placeOf returns where a file of the repository is on the site.
func placeOf(source string) string {
	place := strings.TrimPrefix(source, "docs/")
	switch {
	case source == "README.md": // The root has a page of its own.
		return "readme.html"
	case path.Base(place) == "README.md":
		return path.Join(path.Dir(place), "index.html")
	case path.Ext(place) == ".md" && !strings.Contains(place, "/"):
		return strings.ToLower(strings.TrimSuffix(place, ".md")) + ".html"
	default:
		return strings.TrimSuffix(place, ".md") + map[bool]string{true: ".html"}[path.Ext(place) == ".md"]
	}
}

var noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor returns the name that GitHub gives to a heading.
func anchor(words string) string {
	return strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(words)), ""), " ", "-")
}

// find returns the nodes of one kind.
func find[N ast.Node](p *page) []N {
	var found []N
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n, wanted := n.(N); wanted && entering {
			found = append(found, n)
		}
		return ast.WalkContinue, nil
	})
	return found
}

// words returns the text of a node without its marks.
func (p *page) words(node ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			b.Write(p.own(n))
		} else if n != node && n.Type() == ast.TypeBlock {
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// own returns the text of a node itself. Diagrams have none: their words stand in the text as well.
func (p *page) own(n ast.Node) []byte {
	switch n := n.(type) {
	case *ast.Text:
		if n.SoftLineBreak() || n.HardLineBreak() {
			return append(slices.Clone(n.Segment.Value(p.content)), ' ')
		}
		return n.Segment.Value(p.content)
	case *ast.String:
		return n.Value
	case *ast.AutoLink:
		return n.Label(p.content)
	case *ast.FencedCodeBlock:
		if string(n.Language(p.content)) != "mermaid" {
			return n.Lines().Value(p.content)
		}
	}
	return nil
}

func (p *page) links() []string {
	var links []string
	for _, link := range find[*ast.Link](p) {
		links = append(links, string(link.Destination))
	}
	return links
}

// resolve returns the file in the repository that a link leads to, and the anchor there. The file is empty if the link
// leads out of the repository.
func (p *page) resolve(link string) (file, anchor string) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return "", ""
	}
	file, anchor, _ = strings.Cut(link, "#")
	if file == "" {
		return p.source, anchor
	}
	return path.Join(path.Dir(p.source), file), anchor
}

// contents returns the headings that a reader may want to jump to.
func (p *page) contents() []heading {
	var contents []heading
	for _, h := range find[*ast.Heading](p) {
		if h.Level == 2 || h.Level == 3 {
			contents = append(contents, heading{h.Level, idOf(h), p.words(h)})
		}
	}
	return contents
}

func idOf(n ast.Node) string {
	id, _ := n.AttributeString("id")
	name, _ := id.([]byte)
	return string(name)
}

// sections cuts the page at its headings.
func (p *page) sections() []section {
	var sections []section
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, is := n.(*ast.Heading); is {
			head := section{Page: p.title, Head: p.words(n), URL: p.path + "#" + idOf(n)}
			if h.Level == 1 {
				head.URL = p.path
			}
			sections = append(sections, head)
			continue
		}
		if len(sections) == 0 {
			sections = append(sections, section{Page: p.title, Head: p.title, URL: p.path})
		}
		last := &sections[len(sections)-1]
		last.Text = strings.TrimSpace(last.Text + " " + strings.Join(strings.Fields(p.words(n)), " "))
	}
	return sections
}
