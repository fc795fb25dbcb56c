package setup

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// conversion looks whether the API server can convert CAPI Clusters. If it cannot, a cache that lists them waits, and
// says nothing of why.
type conversion struct {
	live client.Reader
	// which selects Clusters of the instance.
	which []client.ListOption
	// none: the instance has no namespace, and may read nothing.
	none   bool
	logger logr.Logger

	mu       sync.Mutex
	reported string
}

func newConversion(live client.Reader, scope shard.Scope, logger logr.Logger) *conversion {
	c := &conversion{live: live, none: scope.Empty(), logger: logger}
	if c.none {
		return c
	}
	for namespace, only := range scope.Namespaces() {
		c.which = []client.ListOption{client.InNamespace(namespace)} // Any of them will do.
		if only.FieldSelector != nil {
			c.which = append(c.which, client.MatchingFieldsSelector{Selector: only.FieldSelector})
		}
	}
	return c
}

// check is a readiness check. Any other failure can be that of one request.
func (c *conversion) check(request *http.Request) error {
	if c.none {
		return nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), probeTimeout)
	defer cancel()
	why := controller.ConversionFailure(controller.ReadCluster(ctx, c.live, c.which...))
	c.report(why)
	if why != "" {
		return errors.New(why)
	}
	return nil
}

// report logs what is wrong, once.
func (c *conversion) report(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch why {
	case c.reported:
		return
	case "":
		c.logger.Info("CAPI Clusters can be read again")
	default:
		c.logger.Info("CAPI Clusters cannot be read; waiting for the conversion webhook of Cluster API", "cause", why)
	}
	c.reported = why
}
