// Package diagram draws diagrams that are written in a part of the language of Mermaid as SVG, so that what GitHub
// draws in a browser is also there without scripts. It knows sequence diagrams with messages, and flowcharts with
// nodes, edges and subgraphs. What else is in a diagram is an error, not left out.
//
// The SVG has classes instead of colours: the style sheet of the page paints it, dark or light.
package diagram

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// Of a text of 14 pixels in the fonts of the site. No font is asked: 7.6 is more than most letters need.
const (
	letter     = 7.6
	lineHeight = 18.0
	padding    = 12.0
	margin     = 8.0
	// wide is the number of letters at which text is wrapped.
	wide = 26
)

// Draw returns a diagram as an SVG element.
func Draw(source string) (string, error) {
	var lines []string
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "%%") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return "", fmt.Errorf("the diagram is empty")
	}
	switch kind := strings.Fields(lines[0]); {
	case kind[0] == "sequenceDiagram":
		return drawSequence(lines[1:])
	case kind[0] == "flowchart" && len(kind) == 2:
		return drawFlow(kind[1], lines[1:])
	default:
		return "", fmt.Errorf("diagram %q is neither sequenceDiagram nor flowchart with a direction", lines[0])
	}
}

// wrap breaks text into lines, at words and where it says so itself.
func wrap(text string, width int) []string {
	var lines []string
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "<br/>", "<br>"), "<br>") {
		line := ""
		for word := range strings.FieldsSeq(part) {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				lines = append(lines, line)
				line = ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		lines = append(lines, line)
	}
	return lines
}

// measure returns how much room lines of text take.
func measure(lines []string) (w, h float64) {
	for _, line := range lines {
		w = max(w, float64(utf8.RuneCountInString(line))*letter)
	}
	return w, float64(len(lines)) * lineHeight
}

// canvas collects the elements of a picture.
type canvas struct{ strings.Builder }

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.Builder, format+"\n", args...) }

// text writes lines around a point.
func (c *canvas) text(class string, x, y float64, lines []string) {
	y -= float64(len(lines)-1) * lineHeight / 2
	for i, line := range lines {
		c.add(`<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y+float64(i)*lineHeight, html.EscapeString(line))
	}
}

// label writes lines around a point, on a ground that hides what is behind.
func (c *canvas) label(x, y float64, lines []string) {
	w, h := measure(lines)
	w *= 0.93 // Labels have smaller letters.
	c.add(`<rect class="ground" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4"/>`, x-w/2-3, y-h/2, w+6, h)
	c.text("label", x, y, lines)
}

// tip draws the end of an arrow that comes from one direction, given as a vector of length 1.
func (c *canvas) tip(x, y, dx, dy float64) {
	const long, half = 9, 4.5
	c.add(`<path class="tip" d="M%.1f %.1f L%.1f %.1f L%.1f %.1f Z"/>`, x, y, x-long*dx-half*dy, y-long*dy+half*dx, x-long*dx+half*dy, y-long*dy-half*dx)
}

// svg closes the picture.
func (c *canvas) svg(kind string, w, h float64) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="%s" role="img" viewBox="%.0f %.0f %.0f %.0f" width="%.0f" height="%.0f">`+"\n%s</svg>",
		kind, -margin, -margin, w+2*margin, h+2*margin, w+2*margin, h+2*margin, c.String())
}
