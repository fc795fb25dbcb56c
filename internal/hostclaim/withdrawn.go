package hostclaim

import (
	"context"
	"time"
)

// Withdrawn reports whether a namespace was taken from this instance while it runs. What was held there has been released,
// and nothing is taken again. None is for an instance from which nothing can be taken.
type Withdrawn func(ctx context.Context, namespace string) (bool, error)

// WithdrawnPause is the pause before another look at a claim in such a namespace: no event tells that it is given back.
const WithdrawnPause = time.Minute

// In reports whether nothing is to be done in a namespace.
func (w Withdrawn) In(ctx context.Context, namespace string) (bool, error) {
	if w == nil {
		return false, nil
	}
	return w(ctx, namespace)
}
