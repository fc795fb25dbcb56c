package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/alecthomas/chroma/v2"
	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"github.com/archelon-io/archelon/hack/site/diagram"
)

// render returns the HTML of a page, with links that lead to pages of the site where there is one.
func (s *site) render(p *page) (string, error) {
	for _, link := range find[*ast.Link](p) {
		place, err := s.link(p, string(link.Destination))
		if err != nil {
			return "", err
		}
		link.Destination = []byte(place)
	}
	for _, image := range find[*ast.Image](p) {
		file, _ := p.resolve(string(image.Destination))
		if file == "" || !exists(s.root, file) {
			return "", fmt.Errorf("picture %s is not in the repository", image.Destination)
		}
		s.files[file] = true
		image.Destination = []byte(relative(p.path, placeOf(file)))
	}
	var b bytes.Buffer
	if err := markdown().Renderer().Render(&b, p.content, p.root); err != nil {
		return "", err
	}
	// A wide table is scrolled by itself, not with the page.
	html := strings.ReplaceAll(b.String(), "<table>", `<div class="table" tabindex="0"><table>`)
	return strings.ReplaceAll(html, "</table>", "</table></div>"), nil
}

// link returns where a link of a page leads to on the site, or at GitHub for what is no page.
func (s *site) link(p *page, link string) (string, error) {
	file, anchor := p.resolve(link)
	if file == "" {
		return link, nil
	}
	info, err := os.Stat(filepath.Join(s.root, file))
	switch {
	case err != nil:
		return "", fmt.Errorf("it links to %s, which does not exist", link)
	case s.pages[file] != nil && anchor != "":
		return relative(p.path, s.pages[file].path) + "#" + anchor, nil
	case s.pages[file] != nil:
		return relative(p.path, s.pages[file].path), nil
	case info.IsDir() && s.pages[path.Join(file, "README.md")] != nil:
		return relative(p.path, s.pages[path.Join(file, "README.md")].path), nil
	case info.IsDir():
		return repository + "/tree/main/" + file, nil
	default:
		return repository + "/blob/main/" + file, nil
	}
}

// relative returns the way from one page of the site to another, so that the site may be anywhere.
func relative(from, to string) string {
	way, err := filepath.Rel(path.Dir(from), to)
	if err != nil { // Both are relative, so there is a way.
		return to
	}
	return filepath.ToSlash(way)
}

// blocks renders what is more than text: code with its colours, diagrams, and headings that can be linked to.
type blocks struct{}

func (blocks) RegisterFuncs(registry renderer.NodeRendererFuncRegisterer) {
	registry.Register(ast.KindFencedCodeBlock, renderCode)
	registry.Register(ast.KindHeading, renderHeading)
}

func renderHeading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	h, is := n.(*ast.Heading)
	if !is {
		return ast.WalkContinue, nil
	}
	if entering {
		_, err := fmt.Fprintf(w, `<h%d id="%s">`, h.Level, idOf(h))
		return ast.WalkContinue, err
	}
	_, err := fmt.Fprintf(w, ` <a class="anchor" href="#%s" aria-label="Link to this section">#</a></h%d>`+"\n", idOf(h), h.Level)
	return ast.WalkContinue, err
}

func renderCode(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	block, is := n.(*ast.FencedCodeBlock)
	if !is || !entering {
		return ast.WalkContinue, nil
	}
	code, language := string(block.Lines().Value(source)), string(block.Language(source))
	if language == "mermaid" {
		svg, err := diagram.Draw(code)
		if err != nil {
			return ast.WalkStop, err
		}
		_, err = fmt.Fprintf(w, `<figure class="diagram" tabindex="0">%s</figure>`+"\n", svg)
		return ast.WalkSkipChildren, err
	}
	lexer := lexers.Get(language)
	if lexer == nil {
		lexer = lexers.Fallback
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, code)
	if err != nil {
		return ast.WalkStop, err
	}
	_, _ = fmt.Fprint(w, `<div class="code">`)
	if err := chromahtml.New(chromahtml.WithClasses(true)).Format(w, styles.Fallback, tokens); err != nil {
		return ast.WalkStop, err
	}
	_, err = fmt.Fprintln(w, `</div>`)
	return ast.WalkSkipChildren, err
}
