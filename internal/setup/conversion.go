package setup

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/controller"
)

// conversion looks whether the API server can convert CAPI Clusters. If it cannot, a cache that lists them waits, and
// says nothing of why.
type conversion struct {
	live client.Reader
	// namespace is one of those of the instance, empty if it works in all.
	namespace string
	logger    logr.Logger

	mu       sync.Mutex
	reported string
}

func newConversion(live client.Reader, namespaces []string, logger logr.Logger) *conversion {
	c := &conversion{live: live, logger: logger}
	if len(namespaces) > 0 {
		c.namespace = namespaces[0]
	}
	return c
}

// check is a readiness check. Any other failure can be that of one request.
func (c *conversion) check(request *http.Request) error {
	ctx, cancel := context.WithTimeout(request.Context(), probeTimeout)
	defer cancel()
	why := controller.ConversionFailure(controller.ReadCluster(ctx, c.live, c.namespace))
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
