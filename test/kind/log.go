package kind

import (
	"fmt"
	"io"

	"sigs.k8s.io/kind/pkg/log"
)

// logger has kind say what it does line by line.
type logger struct{ out io.Writer }

// Warn implements log.Logger.
func (l logger) Warn(message string) { l.say(message) }

// Warnf implements log.Logger.
func (l logger) Warnf(format string, args ...any) { l.say(fmt.Sprintf(format, args...)) }

// Error implements log.Logger.
func (l logger) Error(message string) { l.say(message) }

// Errorf implements log.Logger.
func (l logger) Errorf(format string, args ...any) { l.say(fmt.Sprintf(format, args...)) }

// V implements log.Logger. Details are for those who debug kind.
func (l logger) V(level log.Level) log.InfoLogger {
	if level > 0 {
		return log.NoopInfoLogger{}
	}
	return info(l)
}

func (l logger) say(message string) {
	if l.out != nil {
		_, _ = fmt.Fprintln(l.out, "kind: "+message)
	}
}

// info is a log.InfoLogger.
type info logger

// Info implements log.InfoLogger.
func (i info) Info(message string) { logger(i).say(message) }

// Infof implements log.InfoLogger.
func (i info) Infof(format string, args ...any) { logger(i).say(fmt.Sprintf(format, args...)) }

// Enabled implements log.InfoLogger.
func (info) Enabled() bool { return true }
