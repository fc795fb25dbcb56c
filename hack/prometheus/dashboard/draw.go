package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

const (
	column = 50 // Grafana's grid has 24
	unit   = 26 // its rows
	gap    = 4  // around each panel
	header = 44 // of the picture
	letter = 6.2
)

// color is that of a series, in Grafana's order.
func color(n int) string {
	palette := []string{"#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#f2495c", "#b877d9", "#8ab8ff", "#37872d", "#c4162a", "#705da0"}
	return palette[n%len(palette)]
}

const style = `text{font:12px system-ui,"DejaVu Sans",sans-serif;fill:#24292e}.title{font-weight:600}.quiet{font-size:10px;fill:#6e7781}
.back{fill:#f4f5f5}.card{fill:#fff;stroke:#dfe1e6}.grid{stroke:#e4e6ea}.stat{font-size:40px;font-weight:600}
@media(prefers-color-scheme:dark){text{fill:#ccccdc}.quiet{fill:#8e8ea0}.back{fill:#111217}.card{fill:#181b1f;stroke:#25282d}.grid{stroke:#2c3036}}`

// series is one line of a panel: a value for each step, or none (NaN).
type series struct {
	name   string
	labels labels.Labels
	values []float64
}

// drawn is a panel with its data, on the canvas.
type drawn struct {
	panel

	x, y, w, h float64
	series     []series
	seconds    int
	out        *bytes.Buffer
}

// draw returns the picture of a dashboard. Each panel says which queries it shows.
func draw(ctx context.Context, b board, r *recording) ([]byte, error) {
	var out bytes.Buffer
	height := 0
	for _, p := range b.Panels {
		height = max(height, header+(p.GridPos.Y+p.GridPos.H)*unit)
	}
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="%[3]s">`+
		"\n<style>%[4]s</style>\n"+`<rect class="back" width="100%%" height="100%%"/><text x="12" y="28" style="font-size:18px">%[3]s</text>`+"\n",
		24*column, height, html.EscapeString(b.Title), style)
	for _, p := range b.Panels {
		at := p.GridPos
		d := drawn{
			panel: p, x: float64(at.X*column + gap), y: float64(header + at.Y*unit + gap), w: float64(at.W*column - 2*gap), h: float64(at.H*unit - 2*gap),
			seconds: int(r.end.Sub(r.start) / step), out: &out,
		}
		var queries []string
		for _, t := range p.Targets {
			queries = append(queries, t.Expr)
			if err := d.ask(ctx, r, t); err != nil {
				return nil, fmt.Errorf("panel %q: %w", p.Title, err)
			}
		}
		fmt.Fprintf(&out, `<g data-panel="%s" data-queries="%s">`, html.EscapeString(p.Title), html.EscapeString(strings.Join(queries, "\n")))
		kinds := map[string]func(){"row": d.row, "stat": d.stat, "timeseries": d.timeseries, "table": d.table}
		kind, known := kinds[p.Type]
		if !known {
			return nil, fmt.Errorf("panel %q is a %s, which cannot be drawn", p.Title, p.Type)
		}
		kind()
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

var field = regexp.MustCompile(`\{\{(\w+)\}\}`)

// ask evaluates a query of the panel.
func (d *drawn) ask(ctx context.Context, r *recording, t target) error {
	matrix, err := r.query(ctx, t.query())
	if err != nil {
		return err
	}
	for _, found := range matrix {
		s := series{labels: found.Metric, values: slices.Repeat([]float64{math.NaN()}, d.seconds+1)}
		s.name = field.ReplaceAllStringFunc(t.LegendFormat, func(name string) string { return found.Metric.Get(strings.Trim(name, "{}")) })
		for _, point := range found.Floats {
			if !math.IsInf(point.F, 0) {
				s.values[(point.T-r.start.UnixMilli())/step.Milliseconds()] = point.F
			}
		}
		d.series = append(d.series, s)
	}
	return nil
}

func (d *drawn) text(x, y float64, class, anchor, text string) {
	fmt.Fprintf(d.out, `<text x="%.0f" y="%.0f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(text))
}

func (d *drawn) row() { d.text(d.x+4, d.y+14, "title", "start", "▾ "+d.Title) }

func (d *drawn) card() {
	fmt.Fprintf(d.out, `<rect class="card" x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="3"/>`, d.x, d.y, d.w, d.h)
	d.text(d.x+8, d.y+17, "title", "start", d.Title)
}

// stat shows the last value, in the color of its threshold.
func (d *drawn) stat() {
	d.card()
	value := last(d.series[0].values)
	name := ""
	for _, t := range d.FieldConfig.Defaults.Thresholds.Steps {
		if t.Value == nil || value >= *t.Value {
			name = t.Color
		}
	}
	fill := map[string]string{"green": ` style="fill:#56a64b"`, "red": ` style="fill:#e02f44"`}[name]
	fmt.Fprintf(d.out, `<text x="%.0f" y="%.0f" class="stat" text-anchor="middle"%s>%s</text>`, d.x+d.w/2, d.y+d.h/2+22, fill, d.format(value))
}

// last is the last value that there is.
func last(values []float64) float64 {
	for _, value := range slices.Backward(values) {
		if !math.IsNaN(value) {
			return value
		}
	}
	return math.NaN()
}

// timeseries shows all values as lines, above each other if they are stacked.
func (d *drawn) timeseries() {
	d.card()
	defaults := d.FieldConfig.Defaults
	stacked, top := defaults.Custom.Stacking.Mode == "normal", 0.0
	var lower, upper [][]float64 // the edges of each series
	base := make([]float64, d.seconds+1)
	for _, s := range d.series {
		line := slices.Clone(s.values)
		lower = append(lower, slices.Clone(base))
		for i := range line {
			if math.IsNaN(line[i]) {
				continue
			}
			if stacked {
				base[i] += line[i]
				line[i] = base[i]
			}
			top = max(top, line[i])
		}
		upper = append(upper, line)
	}
	if defaults.Max != nil {
		top = *defaults.Max
	}
	at := d.axes(top, d.legend())
	for n := range slices.Backward(d.series) { // what adds nothing to a stack is not to hide the one below
		d.line(upper[n], lower[n], color(n), stacked, at)
	}
}

// legend names the series, in as many rows as that takes, and returns how high these are.
func (d *drawn) legend() float64 {
	const row = 14
	type place struct{ x, y float64 }
	var places []place
	x, y := d.x+10, 0.0
	for _, s := range d.series {
		width := 30 + letter*float64(len(s.name))
		if x > d.x+10 && x+width > d.x+d.w {
			x, y = d.x+10, y+row
		}
		places = append(places, place{x, y})
		x += width
	}
	for n, s := range d.series {
		x, y := places[n].x, d.y+d.h-12-y+places[n].y
		fmt.Fprintf(d.out, `<path stroke="%s" stroke-width="3" d="M%.0f %.0fh12"/>`, color(n), x, y-4)
		d.text(x+16, y, "quiet", "start", s.name)
	}
	return y + row
}

// axes draws them, above what is below, and returns where values are.
func (d *drawn) axes(top, below float64) func(i int, value float64) (x, y float64) {
	scale := 1.0
	if d.FieldConfig.Defaults.Unit == "bytes" {
		scale = 1 << 20
	}
	tick := scale * nice(top/scale/4)
	top = max(top, tick*math.Ceil(top/tick-1e-9))
	if top == 0 {
		top = 4 * tick
	}
	left, right, upper, lower := d.x+62, d.x+d.w-12, d.y+32, d.y+d.h-28-below
	at := func(i int, value float64) (x, y float64) {
		return left + (right-left)*float64(i)/float64(max(1, d.seconds)), lower - (lower-upper)*value/top
	}
	for value := 0.0; value <= top*1.001; value += tick {
		_, y := at(0, value)
		fmt.Fprintf(d.out, `<path class="grid" d="M%.0f %.1fH%.0f"/>`, left, y, right)
		d.text(left-6, y+4, "quiet", "end", d.format(value))
	}
	every := max(15, 15*int(math.Ceil(float64(d.seconds)/15/(d.w/70))))
	for i := 0; i <= d.seconds; i += every {
		x, _ := at(i, 0)
		d.text(x, lower+14, "quiet", "middle", fmt.Sprintf("%d:%02d", i/60, i%60))
	}
	return at
}

// line draws one of them, with gaps where there is no value. What is between it and the one below
// is filled if that is wanted.
func (d *drawn) line(upper, lower []float64, color string, filled bool, at func(int, float64) (x, y float64)) {
	var edge, area, back strings.Builder
	for i, value := range upper {
		command := "L"
		if i == 0 || math.IsNaN(upper[i-1]) {
			command = "M"
			back.Reset()
		}
		if math.IsNaN(value) {
			continue
		}
		x, y := at(i, value)
		fmt.Fprintf(&edge, "%s%.1f %.1f", command, x, y)
		fmt.Fprintf(&area, "%s%.1f %.1f", command, x, y)
		_, floor := at(i, lower[i])
		rest := back.String()
		back.Reset()
		fmt.Fprintf(&back, "L%.1f %.1f%s", x, floor, rest)
		if i == len(upper)-1 || math.IsNaN(upper[i+1]) {
			area.WriteString(back.String() + "Z")
		}
	}
	if filled {
		fmt.Fprintf(d.out, `<path fill="%s" fill-opacity="%.2f" d="%s"/>`, color, d.FieldConfig.Defaults.Custom.FillOpacity/100, area.String())
	}
	fmt.Fprintf(d.out, `<path fill="none" stroke="%s" stroke-width="1.5" d="%s"/>`, color, edge.String())
}

// table shows the labels that the dashboard keeps, of what there is at the end: one line for all series,
// which are joined by their Pod.
func (d *drawn) table() {
	d.card()
	var patterns []string
	for _, t := range d.Transformations {
		if t.Options.Include.Pattern != "" {
			patterns = append(patterns, t.Options.Include.Pattern)
		}
	}
	wanted := strings.Join(patterns, "|")
	keep := regexp.MustCompile(wanted)
	row := map[string]string{}
	for _, s := range d.series {
		if math.IsNaN(s.values[d.seconds]) {
			continue
		}
		s.labels.Range(func(l labels.Label) {
			if keep.MatchString(l.Name) {
				row[l.Name] = l.Value
			}
		})
	}
	y := d.y + 44
	for _, name := range strings.FieldsFunc(wanted, func(r rune) bool { return strings.ContainsRune("^$()|", r) }) {
		if value, found := row[name]; found {
			d.text(d.x+12, y, "quiet", "start", name)
			d.text(d.x+130, y, "", "start", short(value, int((d.w-140)/letter/1.1)))
			y += 22
		}
	}
}

func short(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return text[:length-1] + "…"
}

// nice is the next round number.
func nice(value float64) float64 {
	if value <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, factor := range []float64{1, 2, 2.5, 5} {
		if value <= factor*power*1.0001 {
			return factor * power
		}
	}
	return 10 * power
}

// format writes a value in the unit of the panel.
func (d *drawn) format(value float64) string {
	number := func(value float64) string { return fmt.Sprintf("%.3g", value) }
	switch d.FieldConfig.Defaults.Unit {
	case "s":
		if value > 0 && value < 1 {
			return number(1000*value) + " ms"
		}
		return number(value) + " s"
	case "bytes":
		return number(value/(1<<20)) + " MiB"
	case "ops":
		return number(value) + " ops/s"
	case "reqps":
		return number(value) + " req/s"
	default:
		return number(value)
	}
}
