package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repo writes files of a repository.
func repo(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["charts/archelon/icon.svg"] = "<svg/>"
	for name, content := range files {
		if err := save(dir, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLinks(t *testing.T) {
	dir, out := repo(t, map[string]string{
		"docs/README.md":       "# Start\n\n[a](a/b.md#two-words) [c](../CONTRIBUTING.md) [d](../LICENSE) [e](../examples) [f](a) [g](https://example.com/x.md) [h](#start)\n\n![i](i.svg)",
		"docs/a/README.md":     "# A",
		"docs/a/b.md":          "# B\n\n## Two `words`!\n\n## Two words\n\n[up](../README.md)",
		"docs/i.svg":           "<svg/>",
		"CONTRIBUTING.md":      "# C",
		"LICENSE":              "",
		"examples/a.yaml":      "",
		"test/data/ignored.md": "[x](nowhere.md)",
	}), t.TempDir()
	if err := build(dir, out); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	for _, want := range []string{
		`href="a/b.html#two-words"`, `href="contributing.html"`, `href="https://github.com/archelon-io/archelon/blob/main/LICENSE"`,
		`href="https://github.com/archelon-io/archelon/tree/main/examples"`, `href="a/index.html">f`, `href="https://example.com/x.md"`, `href="index.html#start"`, `src="i.svg"`,
	} {
		if !strings.Contains(read("index.html"), want) {
			t.Errorf("the first page lacks %s", want)
		}
	}
	for _, want := range []string{`id="two-words"`, `id="two-words-1"`, `href="../index.html"`, `href="../style.css"`} {
		if !strings.Contains(read("a/b.html"), want) {
			t.Errorf("page b lacks %s", want)
		}
	}
	if read("i.svg") != "<svg/>" {
		t.Error("the picture is not copied")
	}
}

func TestWhatCannotBeBuilt(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"Link":    {"[a](b.md)", "docs/README.md: it links to b.md, which does not exist"},
		"Picture": {"![a](b.svg)", "picture b.svg is not in the repository"},
		"Diagram": {"```mermaid\npie\n```", `"pie" is neither`},
	} {
		t.Run(name, func(t *testing.T) {
			err := build(repo(t, map[string]string{"docs/README.md": c.page}), t.TempDir())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	out := t.TempDir()
	if err := save(out, "precious", nil); err != nil {
		t.Fatal(err)
	}
	if err := build(root, out); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("built into a directory with a file: %v", err)
	}
}

func TestSections(t *testing.T) {
	p := parse("docs/x.md", []byte("# X\n\nOne `two`.\n\n## Y\n\n| a | b |\n|---|---|\n| c | d |\n\n```sh\nrun\n```\n"))
	got := p.sections()
	want := []section{{"X", "X", "x.html", "One two."}, {"X", "Y", "x.html#y", "a b c d run"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v", got)
	}
}
