// Package recording turns what a program prints into a picture that moves: an SVG of a terminal, without scripts, which
// any browser plays and GitHub shows.
package recording

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	columns = 104
	rows    = 30
	advance = 7.3 // of a letter
	height  = 17  // of a line
	bar     = 34  // above the lines
	side    = 14
	// longest is how long a pause of the program lasts in the picture, and reading how long a line stays alone at least.
	longest = 1200 * time.Millisecond
	reading = 160 * time.Millisecond
	// end is how long the last line stays before the picture begins anew.
	end = 6 * time.Second
)

// Reel takes what a program prints and notes when each line was complete.
type Reel struct {
	Title string
	Copy  io.Writer        // gets all of it as well, if it is set
	Now   func() time.Time // time.Now, if it is not set

	rest  []byte
	lines []line
}

type line struct {
	at   time.Time
	text string
}

// Write implements io.Writer.
func (r *Reel) Write(p []byte) (int, error) {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	r.rest = append(r.rest, p...)
	for {
		text, rest, complete := bytes.Cut(r.rest, []byte("\n"))
		if !complete {
			break
		}
		r.lines = append(r.lines, line{now(), strings.TrimRight(string(text), " ")})
		r.rest = rest
	}
	if r.Copy != nil {
		return r.Copy.Write(p)
	}
	return len(p), nil
}

// fold breaks lines that are longer than the terminal is wide.
func fold(lines []line) []line {
	var folded []line
	for _, l := range lines {
		text := []rune(l.text)
		for len(text) > columns {
			folded = append(folded, line{l.at, string(text[:columns])})
			text = text[columns:]
		}
		folded = append(folded, line{l.at, string(text)})
	}
	return folded
}

// moments returns when each line appears in the picture, and when the picture ends.
func moments(lines []line) (at []time.Duration, all time.Duration) {
	for i, l := range lines {
		if i > 0 {
			all += max(min(l.at.Sub(lines[i-1].at), longest), reading)
		}
		at = append(at, all)
	}
	return at, all + end
}

// SVG returns the picture. Lines that are not there yet are behind a cover, which goes down as they come; what is above
// the window scrolls out of it. Who wants no motion sees the end.
func (r *Reel) SVG() []byte {
	lines := fold(r.lines)
	at, all := moments(lines)
	width := columns*advance + 2*side
	var cover, scroll, text bytes.Buffer
	for i, l := range lines {
		percent := 100 * at[i].Seconds() / all.Seconds()
		fmt.Fprintf(&cover, "%.2f%%{transform:translateY(%dpx)}", percent, (i+1)*height)
		fmt.Fprintf(&scroll, "%.2f%%{transform:translateY(%dpx)}", percent, -max(0, i+1-rows)*height)
		if l.text != "" {
			fmt.Fprintf(&text, `<text%s y="%d">%s</text>`+"\n", class(l.text), i*height+13, html.EscapeString(l.text))
		}
	}
	last := len(lines) * height
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-label="%s">
<style>
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d6deeb;white-space:pre}
.command{fill:#7fdbca;font-weight:700}.head{fill:#fff;font-weight:700}.step{fill:#c5e478}
.cover{transform:translateY(%dpx);animation:cover %.1fs step-end infinite}.scroll{transform:translateY(%dpx);animation:scroll %.1fs step-end infinite}
@keyframes cover{%s}
@keyframes scroll{%s}
@media (prefers-reduced-motion:reduce){.cover,.scroll{animation:none}}
</style>
<rect width="100%%" height="100%%" rx="10" fill="#0b1a2b"/>
<circle cx="20" cy="17" r="5" fill="#ff5f57"/><circle cx="38" cy="17" r="5" fill="#febc2e"/><circle cx="56" cy="17" r="5" fill="#28c840"/>
<text x="%.0f" y="21" text-anchor="middle">%s</text>
<svg x="%d" y="%d" width="%.0f" height="%d" overflow="hidden"><g class="scroll">
%s<rect class="cover" width="100%%" height="%d" fill="#0b1a2b"/></g></svg>
</svg>
`, width, rows*height+bar+side, width, rows*height+bar+side, html.EscapeString(r.Title), last, all.Seconds(), -max(0, len(lines)-rows)*height, all.Seconds(), cover.String(), scroll.String(),
		width/2, html.EscapeString(r.Title), side, bar, columns*advance+side, rows*height, text.String(), last+rows*height)
	return b.Bytes()
}

var step = regexp.MustCompile(`^ +\+ *\d+\.\d+s `)

// class says what a line is, as the demo writes it: a command, a step with its time, or a
// heading, which is not indented.
func class(text string) string {
	first, _ := utf8.DecodeRuneInString(text)
	switch {
	case strings.HasPrefix(strings.TrimSpace(text), "$ "):
		return ` class="command"`
	case step.MatchString(text):
		return ` class="step"`
	case first != ' ':
		return ` class="head"`
	default:
		return ""
	}
}
