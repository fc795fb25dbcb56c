package setup

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// service runs beside the managers for the whole life of the process.
type service struct {
	name string
	// serve returns when the context ends, or at once if there is nothing to serve.
	serve func(context.Context) error
}

// during runs something with services beside it. When one of them fails, all end; when run returns, the services end too.
func during(ctx context.Context, run func(context.Context) error, services ...service) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var serving sync.WaitGroup
	failed := make([]error, len(services))
	for i, s := range services {
		serving.Go(func() {
			if err := s.serve(ctx); err != nil {
				failed[i] = fmt.Errorf("serving %s: %w", s.name, err)
				stop()
			}
		})
	}
	err := run(ctx)
	stop()
	serving.Wait()
	return errors.Join(append([]error{err}, failed...)...)
}
