package workload

import (
	"context"
	"sync"
)

// Bounds of the warnings that are kept of the requests of one context.
const (
	warningsKept     = 20
	warningBytesKept = 256
)

// Warnings are what API servers warned of in the answers to the requests of one context. They are a stranger's text:
// they may be classified, and are neither logged nor quoted.
type Warnings struct {
	mu    sync.Mutex
	texts []string
}

type warningsKey struct{}

// WithWarnings returns a context whose requests leave their warnings.
func WithWarnings(ctx context.Context) (context.Context, *Warnings) {
	kept := &Warnings{}
	return context.WithValue(ctx, warningsKey{}, kept), kept
}

// Texts returns the beginnings of the first warnings.
func (w *Warnings) Texts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.texts
}

func (w *Warnings) keep(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.texts) < warningsKept {
		w.texts = append(w.texts, text[:min(len(text), warningBytesKept)])
	}
}

// warningHandler gives warnings to the Warnings of their context. Without any they are dropped: client-go would log
// them.
type warningHandler struct{}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (warningHandler) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const ofAPIServer = 299
	if kept, ok := ctx.Value(warningsKey{}).(*Warnings); ok && code == ofAPIServer {
		kept.keep(text)
	}
}
