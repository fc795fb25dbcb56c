package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-logr/logr"
)

// plainLog writes one line per event: the time, what happened, and to what.
func plainLog(out io.Writer) logr.Logger {
	return logr.New(&sink{out: out})
}

// sink is a logr.LogSink for people. It shows what changed the world, nothing below.
type sink struct {
	out    io.Writer
	values []any
}

func (*sink) Init(logr.RuntimeInfo) {}

func (*sink) Enabled(level int) bool { return level == 0 }

func (s *sink) Info(_ int, message string, values ...any) { s.line(message, values) }

func (s *sink) Error(err error, message string, values ...any) {
	s.line("ERROR "+message, append([]any{"error", err}, values...))
}

func (s *sink) WithValues(values ...any) logr.LogSink {
	return &sink{out: s.out, values: append(append([]any{}, s.values...), values...)}
}

func (s *sink) WithName(string) logr.LogSink { return s }

func (s *sink) line(message string, values []any) {
	var b strings.Builder
	b.WriteString(time.Now().Format("15:04:05.000") + "  " + message)
	values = append(append([]any{}, s.values...), values...)
	for i := 0; i+1 < len(values); i += 2 {
		fmt.Fprintf(&b, "  %v=%v", values[i], values[i+1])
	}
	// Nothing can be done about a log that cannot be written.
	_, _ = io.WriteString(s.out, b.String()+"\n")
}
