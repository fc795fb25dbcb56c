package setup

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
)

// again ends every sentence with which a process ends to be started again. Whoever stands in
// for the kubelet looks for it.
const again = "; the process ends, to be started again"

// ending ends a process for which what it was built for has changed: where it may work, or what its scope is. A cache
// cannot be given other namespaces, so what follows is another process: the kubelet starts it.
type ending struct {
	cancel context.CancelFunc
	logger logr.Logger
	once   sync.Once
}

// newEnding returns a context that ends with the process.
func newEnding(ctx context.Context, logger logr.Logger) (context.Context, *ending) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, &ending{cancel: cancel, logger: logger}
}

// because ends the process, with exit code 0 and a sentence in the log. The first sentence is the only one.
func (e *ending) because(sentence string, keysAndValues ...any) {
	e.once.Do(func() {
		e.logger.Info(sentence+again, keysAndValues...)
		e.cancel()
	})
}
