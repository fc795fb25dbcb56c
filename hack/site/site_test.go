package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/html"
)

const root = "../.."

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "archelon-site-")
	if err != nil {
		return "", err
	}
	return dir, build(root, dir)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := built(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// visit is a site on loopback, as a reader without scripts sees it.
type visit struct {
	t   *testing.T
	dir string
	url string

	client *http.Client
	pages  map[string]*html.Node // that were looked at
}

func open(t *testing.T, dir string) *visit {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	return &visit{t: t, dir: dir, url: server.URL, client: server.Client(), pages: map[string]*html.Node{}}
}

func openSite(t *testing.T) *visit {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

// get returns a page, or nil for one that does not exist.
func (v *visit) get(page string) *html.Node {
	v.t.Helper()
	if node, known := v.pages[page]; known {
		return node
	}
	// The server sends those who ask for index.html to its folder.
	request, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, v.url+"/"+strings.TrimSuffix(page, "index.html"), nil)
	if err != nil {
		v.t.Fatal(err)
	}
	answer, err := v.client.Do(request)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	v.pages[page] = nil
	if answer.StatusCode == http.StatusOK {
		if v.pages[page], err = html.Parse(answer.Body); err != nil {
			v.t.Fatal(err)
		}
	}
	return v.pages[page]
}

// every calls a function for each element below a node.
func every(node *html.Node, do func(*html.Node)) {
	if node == nil {
		return
	}
	for n := range node.Descendants() {
		if n.Type == html.ElementNode {
			do(n)
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func hasID(page *html.Node, id string) bool {
	found := false
	every(page, func(n *html.Node) { found = found || attribute(n, "id") == id })
	return found
}

func textOf(node *html.Node) string {
	var b strings.Builder
	for n := range node.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return b.String()
}

// links returns where the text of a page leads to, as paths of the site with anchors.
func (v *visit) links(page string) []string {
	v.t.Helper()
	var links []string
	every(v.get(page), func(n *html.Node) {
		if n.Data != "article" {
			return
		}
		every(n, func(n *html.Node) {
			if way := attribute(n, "href"); n.Data == "a" && way != "" && !strings.Contains(way, "://") {
				links = append(links, place(page, way))
			}
		})
	})
	return links
}

// place returns what a link on a page means.
func place(page, way string) string {
	file, id, anchored := strings.Cut(way, "#")
	if file == "" {
		file = page
	} else {
		file = path.Join(path.Dir(page), file)
	}
	if anchored {
		file += "#" + id
	}
	return file
}

// ways returns all that leads out of a page or is loaded for it, with the kind of element that does.
func (v *visit) ways(page string) (ways [][2]string) {
	v.t.Helper()
	every(v.get(page), func(n *html.Node) {
		for _, name := range []string{"href", "src", "data", "poster", "srcset"} {
			if way := attribute(n, name); way != "" {
				ways = append(ways, [2]string{n.Data, way})
			}
		}
	})
	return ways
}

// problem says what is wrong with a way out of a page, if anything is.
func (v *visit) problem(page, element, way string) string {
	v.t.Helper()
	if element == "a" && (strings.HasPrefix(way, "https://") || strings.HasPrefix(way, "mailto:")) {
		return ""
	}
	if strings.Contains(way, "//") || strings.HasPrefix(way, "data:") {
		return page + " loads or leads to " + way
	}
	file, id, _ := strings.Cut(place(page, way), "#")
	switch {
	case v.get(file) == nil:
		return page + " leads to " + way + ", which does not exist"
	case id != "" && !hasID(v.get(file), id):
		return page + " leads to " + way + ", which has no such place"
	default:
		return ""
	}
}

// problems walks through all pages from the first on, and returns what is wrong with them: links that lead nowhere,
// pages that nothing leads to, and anything that a browser would load from elsewhere.
func (v *visit) problems() []string {
	v.t.Helper()
	var problems []string
	next, seen := []string{"index.html"}, map[string]bool{"index.html": true}
	for len(next) > 0 {
		page := next[0]
		next = next[1:]
		for _, way := range v.ways(page) {
			if problem := v.problem(page, way[0], way[1]); problem != "" {
				problems = append(problems, problem)
			}
			if file, _, _ := strings.Cut(place(page, way[1]), "#"); !strings.Contains(way[1], "//") && !seen[file] && path.Ext(file) == ".html" {
				seen[file] = true
				next = append(next, file)
			}
		}
	}
	err := filepath.WalkDir(v.dir, func(file string, _ os.DirEntry, err error) error {
		if name, _ := filepath.Rel(v.dir, file); path.Ext(file) == ".html" && !seen[filepath.ToSlash(name)] {
			problems = append(problems, "nothing leads to "+name)
		}
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return problems
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	v := openSite(t)
	for _, problem := range v.problems() {
		t.Error(problem)
	}
	if len(v.pages) < 60 {
		t.Errorf("there are %d pages only", len(v.pages))
	}
}

// The check itself: what is wrong on purpose is found.
func TestProblemsAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"index.html": `<article><h1 id="here">A</h1><a href="#there">1</a><a href="b.html">2</a><a href="c.html">3</a><a href="http://example.com">4</a>
			<img src="https://example.com/a.png"></article>`,
		"b.html": `<a href="index.html#here">1</a>`,
		"d.html": ``,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"index.html leads to #there, which has no such place", "index.html leads to c.html, which does not exist",
		"index.html loads or leads to http://example.com", "index.html loads or leads to https://example.com/a.png", "nothing leads to d.html",
	}
	if got := open(t, dir).problems(); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestNothingIsLoadedFromElsewhere(t *testing.T) {
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"style.css", "site.js"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`https?://|url\(|@import|\bfetch\(`).Match(content) {
			t.Errorf("%s loads something", name)
		}
	}
}

// walk follows links in the text of pages, each from the page before.
func (v *visit) walk(way ...string) {
	v.t.Helper()
	for i, to := range way[1:] {
		from, _, _ := strings.Cut(way[i], "#")
		if links := v.links(from); !slices.ContainsFunc(links, func(link string) bool {
			return link == to || !strings.Contains(to, "#") && strings.HasPrefix(link, to+"#")
		}) {
			v.t.Errorf("no link in the text of %s leads to %s", from, to)
		}
	}
}

// What three readers look for is found by links in the text, from the first page on.
func TestReaders(t *testing.T) {
	t.Run("from installed to imported", func(t *testing.T) {
		v := openSite(t)
		v.walk("index.html", "operations/install.html", "operations/import.html", "operations/conditions.html")
		v.walk("index.html", "operations/conditions.html#reasons")
		if !strings.Contains(textOf(v.get("operations/conditions.html")), "RancherImported") {
			t.Error("the page of the condition does not name it")
		}
	})

	t.Run("from an alert to the remedy", func(t *testing.T) {
		v := openSite(t)
		v.walk("index.html", "operations/alerts.html")
		rules, err := os.ReadFile(filepath.Join(root, "charts", "archelon", "files", "alerts.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		alerts := regexp.MustCompile(`runbook_url: \S+/blob/main/(\S+)`).FindAllStringSubmatch(string(rules), -1)
		if len(alerts) < 5 {
			t.Fatalf("found %d alerts", len(alerts))
		}
		for _, alert := range alerts {
			source, id, section := strings.Cut(alert[1], "#")
			if !section {
				v.walk("operations/alerts.html", placeOf(source))
				if !strings.Contains(textOf(v.get(placeOf(source))), "Confirm, or escalate") {
					t.Errorf("runbook %s does not say how it ends", source)
				}
				continue
			}
			v.walk("operations/alerts.html", placeOf(source)+"#"+id)
			if remedy := v.section(placeOf(source), id); !strings.Contains(remedy, "Remedy") {
				t.Errorf("what alert %s leads to has no remedy: %s", id, remedy)
			}
		}
	})

	t.Run("from Turtles and back", func(t *testing.T) {
		v := openSite(t)
		v.walk("index.html", "operations/turtles.html#park-turtles", "operations/turtles.html#moving-from-turtles-to-archelon")
		v.walk("index.html", "operations/turtles.html#moving-back", "operations/uninstall.html")
	})
}

// section returns the text below a heading, up to the next of its level.
func (v *visit) section(page, id string) string {
	var b strings.Builder
	every(v.get(page), func(n *html.Node) {
		if attribute(n, "id") != id {
			return
		}
		for next := n.NextSibling; next != nil && next.Data != n.Data; next = next.NextSibling {
			b.WriteString(textOf(next))
		}
	})
	return b.String()
}

// A quick start is quick, and parks Turtles as the page about Turtles does.
func TestQuickStarts(t *testing.T) {
	first, err := os.ReadFile(filepath.Join(root, start))
	if err != nil {
		t.Fatal(err)
	}
	scripts := regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(first), -1)
	if len(scripts) != 3 {
		t.Fatalf("there are %d quick starts", len(scripts))
	}
	turtles, err := os.ReadFile(filepath.Join(root, "docs/operations/turtles.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		lines := strings.Split(strings.TrimSpace(script[1]), "\n")
		if len(lines) > 10 {
			t.Errorf("a quick start has %d lines:\n%s", len(lines), script[1])
		}
		for _, line := range lines {
			if strings.Contains(line, "cattle-") || strings.Contains(line, "--patch=") {
				if line = strings.TrimSpace(line); !strings.Contains(string(turtles), line) {
					t.Errorf("the page about Turtles does not have %s", line)
				}
			}
		}
	}
}

// The reasons that pictures show are reasons of the condition.
func TestReasonsInPictures(t *testing.T) {
	reasons, err := os.ReadFile(filepath.Join(root, "docs/operations/conditions.md"))
	if err != nil {
		t.Fatal(err)
	}
	v, found := openSite(t), 0
	for _, page := range []string{"index.html", "pictures.html"} {
		every(v.get(page), func(n *html.Node) {
			if word := strings.TrimSpace(textOf(n)); n.Data == "text" && regexp.MustCompile(`^([A-Z][a-z]+){2,}$`).MatchString(word) {
				if found++; !regexp.MustCompile("(?m)^\\| [^|]*`" + word + "`[^|]* \\|").Match(reasons) {
					t.Errorf("the condition has no reason %s, which %s shows", word, page)
				}
			}
		})
	}
	if found < 8 {
		t.Errorf("found %d reasons", found)
	}
}
