package main

import (
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// picture is what tests read of one.
type picture struct {
	Label  string  `xml:"aria-label,attr"`
	Panels []shown `xml:"g"`
}

type shown struct {
	Title   string `xml:"data-panel,attr"`
	Queries string `xml:"data-queries,attr"`
	Paths   []struct {
		Width string `xml:"stroke-width,attr"`
		D     string `xml:"d,attr"`
	} `xml:"path"`
	Texts []string `xml:"text"`
}

// lines counts the series that are drawn.
func (s shown) lines() int {
	count := 0
	for _, path := range s.Paths {
		if path.Width == "1.5" && strings.HasPrefix(path.D, "M") {
			count++
		}
	}
	return count
}

func parse(t *testing.T, raw []byte) picture {
	t.Helper()
	var p picture
	if err := xml.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// The picture in the documentation shows each panel of the dashboard as it is, with data. What has
// no data is not drawn at all.
func TestPictureIsOfTheDashboard(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	b, err := read(filepath.Join(root, "charts", "archelon", "files", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "docs", "dashboard.svg"))
	if err != nil {
		t.Fatal(err)
	}
	p := parse(t, raw)
	if p.Label != b.Title || len(p.Panels) != len(b.Panels) {
		t.Fatalf("the picture is of %q with %d panels, the dashboard is %q with %d: %s", p.Label, len(p.Panels), b.Title, len(b.Panels), remedy)
	}
	for i, want := range b.Panels {
		compare(t, want, p.Panels[i])
	}
}

const remedy = "run make docs-dashboard"

// compare wants a panel to be in the picture with its queries and with data.
func compare(t *testing.T, want panel, got shown) {
	t.Helper()
	var queries []string
	for _, target := range want.Targets {
		queries = append(queries, target.Expr)
		if _, err := parser.ParseExpr(target.query()); err != nil {
			t.Errorf("panel %q: %v", want.Title, err)
		}
	}
	if got.Title != want.Title || got.Queries != strings.Join(queries, "\n") {
		t.Errorf("panel %q with %q is in the picture as %q with %q: %s", want.Title, queries, got.Title, got.Queries, remedy)
	}
	switch drawn := got.lines(); {
	case want.Type == "timeseries" && drawn < len(queries):
		t.Errorf("panel %q has %d lines for %d queries: %s", want.Title, drawn, len(queries), remedy)
	case want.Type != "row" && len(got.Texts) < 2: // the first is its title
		t.Errorf("panel %q has no value: %s", want.Title, remedy)
	}
}

const told = `# AT 1000
# TYPE clusters gauge
clusters{reason="Early",instance="mine"} 1
# AT 2000
clusters{reason="Early",instance="mine"} 3
clusters{reason="Late",instance="mine"} 2
# AT 60000
clusters{reason="Late",instance="mine"} 4
quiet NaN
`

func TestDraw(t *testing.T) {
	r, err := load(t.Context(), []byte(told))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	if took := r.end.Sub(r.start); took != step+pause {
		t.Errorf("the recording lasts %s: what lies between two stories is to be cut", took)
	}
	of := func(kind, expr string) board {
		p := panel{Type: kind, Title: "Here & there", Targets: []target{{Expr: expr, LegendFormat: "{{reason}}"}}}
		p.GridPos.W, p.GridPos.H = 12, 8
		return board{Title: "Board", Panels: []panel{p}}
	}
	cases := map[string]struct {
		reason string
		board  board
		texts  string
		lines  int
		err    string
	}{
		"Lines": {
			reason: "each series is a line, with its label and the labels of the target",
			board:  of("timeseries", `clusters{namespace="$namespace",job="$job",exported_instance="mine"}`), texts: "Here & there|Early|Late|0|1|2|3|4|0:00", lines: 2,
		},
		"Stat":    {reason: "the last value counts", board: of("stat", `sum(clusters)`), texts: "Here & there|4"},
		"Up":      {reason: "Prometheus adds a series", board: of("stat", `up{pod="archelon-0"}`), texts: "Here & there|1"},
		"Missing": {reason: "a panel without data is no picture", board: of("timeseries", `other`), err: "there are no metrics"},
		"NaN":     {reason: "as one whose data are no numbers", board: of("timeseries", `quiet`), err: "there are no metrics"},
		"Wrong":   {reason: "a query has to be one", board: of("timeseries", `sum(`), err: "parse error"},
		"Unknown": {reason: "what nobody has thought of yet is not left out", board: of("gauge", `up`), err: "cannot be drawn"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := draw(t.Context(), tc.board, r)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%s: error %v, want %q", tc.reason, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			got := parse(t, raw).Panels[0]
			if texts := strings.Join(got.Texts, "|"); texts != tc.texts || got.lines() != tc.lines {
				t.Errorf("%s: texts %q and %d lines, want %q and %d", tc.reason, texts, got.lines(), tc.texts, tc.lines)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, content := range []string{"", "# AT now\nup 1\n", "# AT 1000\nno metric at all\n"} {
		if r, err := load(t.Context(), []byte(content)); err == nil {
			t.Errorf("%q is taken for metrics", content)
			_ = r.close() // the test has failed
		}
	}
	if _, err := load(t.Context(), nil); !errors.Is(err, errEmpty) {
		t.Errorf("nothing is refused with %v", err)
	}
}
