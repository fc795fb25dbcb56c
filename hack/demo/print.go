package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// columns is the width that the output is made for.
	columns = 100
	// heartbeat is how often a task that takes long shows that it is alive.
	heartbeat = 5 * time.Second
	// taskWidth is the column at which the duration of a task stands.
	taskWidth = 84
	// tailLines is how much of a log is shown when something fails.
	tailLines = 25
)

// Escape sequences of terminals.
const (
	styleBold  = "\x1b[1m"
	styleDim   = "\x1b[2m"
	styleReset = "\x1b[0m"
)

// printer writes the story. It is written for people: plain text, with a little emphasis on terminals.
type printer struct {
	mu     sync.Mutex
	out    io.Writer
	styled bool
}

// newPrinter writes to a file, with emphasis if that is a terminal and nobody objects (https://no-color.org).
func newPrinter(out *os.File) *printer {
	p := &printer{out: out}
	if info, err := out.Stat(); err == nil {
		p.styled = info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return p
}

// write prints as it is. Nothing can be done about a terminal that is gone.
func (p *printer) write(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.out, text)
}

func (p *printer) style(style, text string) string {
	if !p.styled {
		return text
	}
	return style + text + styleReset
}

// heading begins a part of the story.
func (p *printer) heading(text string) {
	p.write("\n" + p.style(styleBold, text) + "\n")
}

// say prints a paragraph.
func (p *printer) say(format string, args ...any) {
	p.write("\n" + wrap(fmt.Sprintf(format, args...), "  ") + "\n")
}

// command prints what a user would type.
func (p *printer) command(format string, args ...any) {
	p.write("  " + p.style(styleBold, "$ "+fmt.Sprintf(format, args...)) + "\n")
}

// lines prints text that is not to be wrapped.
func (p *printer) lines(lines ...string) {
	p.write("    " + strings.Join(lines, "\n    ") + "\n")
}

// step prints what happened to a cluster, and how long after the beginning.
func (p *printer) step(after time.Duration, who, what string) {
	p.write(fmt.Sprintf("  %s  %-8s  %s\n", p.style(styleDim, fmt.Sprintf("+%5.2fs", after.Seconds())), who, what))
}

// task prints what is being done and, when it is, how long it took. Dots tell that it goes on.
func (p *printer) task(text string, do func() error) error {
	began := time.Now()
	p.write("  " + text + " ")
	dots := taskWidth - len(text)
	ended := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				if dots > 1 {
					dots--
					p.write(".")
				}
			}
		}
	})
	err := do()
	close(ended)
	beats.Wait()
	result := fmt.Sprintf("%5.1f s", time.Since(began).Seconds())
	if err != nil {
		result = "failed"
	}
	p.write(strings.Repeat(".", max(dots, 1)) + " " + result + "\n")
	return err
}

// wrap breaks text into lines that fit the width, each behind the indent. A word is never broken.
func wrap(text, indent string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
			b.WriteString(indent)
			column = len(indent)
		case column+1+len(word) > columns:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// tailOfFile returns the last lines of a file, as far as it can be read.
func tailOfFile(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return tail(string(content))
}

// tail returns the last lines of a log.
func tail(log string) string {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
