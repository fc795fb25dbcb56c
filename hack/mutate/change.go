package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"
)

// mutant is a change of the package.
type mutant struct {
	id    int
	name  string
	edits []edit
}

// edit replaces a part of a file.
type edit struct {
	file     string
	from, to int
	text     string
}

// swaps are operators that stand for each other.
var swaps = [][]token.Token{ //nolint:gochecknoglobals // it is never changed
	{token.EQL, token.NEQ},
	{token.LSS, token.LEQ, token.GTR, token.GEQ},
	{token.LAND, token.LOR},
	{token.ADD, token.SUB},
	{token.INC, token.DEC},
	{token.BREAK, token.CONTINUE},
	{token.ASSIGN, token.DEFINE},
}

// word is a token of a file, in a function.
type word struct {
	tok           token.Token
	text          string
	offset        int
	line          int
	before, after string // the tokens around it
	function      string
}

// drawn changes each token of files that can be changed, in an order that the seed says.
func drawn(files []string, seed uint64) ([]mutant, error) {
	var all []mutant
	draw := rand.New(rand.NewPCG(seed, 0))
	for _, file := range files {
		words, err := wordsOf(file)
		if err != nil {
			return nil, err
		}
		for _, w := range words {
			others := alternatives(w, words)
			if len(others) == 0 {
				continue
			}
			other := others[draw.IntN(len(others))]
			was, is := w.text, other
			if is == "" {
				is = "nothing"
			}
			all = append(all, mutant{
				name:  fmt.Sprintf("%s:%d (%s) %s becomes %s", filepath.Base(file), w.line, w.function, was, is),
				edits: []edit{{file, w.offset, w.offset + len(w.text), other}},
			})
		}
	}
	draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}

// alternatives are what a token can become. An identifier becomes another one that the file has in the same place: what
// is around it is the same.
func alternatives(w word, words []word) []string {
	switch w.tok {
	case token.NOT:
		return []string{""}
	case token.INT:
		n, err := strconv.Atoi(w.text)
		if err != nil {
			return nil
		}
		return []string{strconv.Itoa(n + 1)}
	case token.STRING:
		return []string{`"changed"`}
	case token.IDENT:
		var others []string
		for _, o := range words {
			if o.tok == token.IDENT && o.text != w.text && o.before == w.before && o.after == w.after {
				others = append(others, o.text)
			}
		}
		slices.Sort(others)
		return slices.Compact(others)
	}
	for _, swap := range swaps {
		if i := slices.Index(swap, w.tok); i >= 0 {
			var others []string
			for _, o := range slices.Delete(slices.Clone(swap), i, i+1) {
				others = append(others, o.String())
			}
			return others
		}
	}
	return nil
}

// wordsOf returns the tokens of the bodies of functions.
func wordsOf(file string) ([]word, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	functions, err := functionsOf(file, raw)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	handle := set.AddFile(file, -1, len(raw))
	var s scanner.Scanner
	s.Init(handle, raw, nil, 0)
	var all []word
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if text == "" {
			text = tok.String()
		}
		if tok.IsOperator() && tok != token.SEMICOLON {
			text = tok.String()
		}
		all = append(all, word{tok: tok, text: text, offset: handle.Offset(pos), line: handle.Line(pos)})
	}
	var inside []word
	for i := 1; i < len(all)-1; i++ {
		for _, f := range functions {
			if w := all[i]; f.open < w.offset && w.offset < f.end {
				w.before, w.after, w.function = all[i-1].text, all[i+1].text, f.name
				inside = append(inside, w)
			}
		}
	}
	return inside, nil
}

// function is where a function has its body.
type function struct {
	name      string
	open, end int // the offsets of its braces
	returns   bool
	line      int // of the opening brace
}

func functionsOf(file string, raw []byte) ([]function, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, raw, 0)
	if err != nil {
		return nil, err
	}
	var found []function
	for _, declared := range parsed.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && f.Body != nil {
			found = append(found, function{
				name: f.Name.Name, open: set.Position(f.Body.Lbrace).Offset, end: set.Position(f.Body.Rbrace).Offset,
				returns: f.Type.Results.NumFields() > 0, line: set.Position(f.Body.Lbrace).Line,
			})
		}
	}
	return found, nil
}

// listed reads changes by name.
func listed(list string) ([]mutant, error) {
	raw, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	var entries []struct {
		// Name says what is taken out, Why what for it was there; the tests have to find it.
		Name    string `json:"name"`
		Why     string `json:"why"`
		Changes []struct {
			File string `json:"file"`
			From string `json:"from"`
			To   string `json:"to"`
		} `json:"changes"`
	}
	if err := yaml.UnmarshalStrict(raw, &entries); err != nil {
		return nil, err
	}
	var all []mutant
	for _, entry := range entries {
		m := mutant{name: entry.Name}
		for _, c := range entry.Changes {
			content, err := os.ReadFile(c.File)
			if err != nil {
				return nil, err
			}
			at, err := only(string(content), c.From)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", entry.Name, c.File, err)
			}
			m.edits = append(m.edits, edit{c.File, at, at + len(c.From), c.To})
		}
		all = append(all, m)
	}
	return all, nil
}
