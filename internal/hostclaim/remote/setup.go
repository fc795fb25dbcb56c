package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
	"github.com/archelon-io/archelon/internal/workload"
)

// retryMax is how long a source waits at most of which something failed.
const retryMax = 5 * time.Minute

// A worker waits for the answers of other clusters, which tenants may run. One namespace has few workers, and there are
// many: clusters of one tenant that answer after seconds delay its own claims alone.
const (
	workers      = 8 // times the concurrency
	ofANamespace = 2
)

// Options of the controller.
type Options struct {
	// Concurrency is how many sources would be worked on at the same time if other clusters answered at once.
	Concurrency int
	// Own is the controller's own cache.
	Own cache.Cache
	// Workload configures the clients of other clusters.
	Workload workload.Options
}

// SetupWithManager adds the controllers to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Own == nil || options.Concurrency < 1 {
		return errors.New("the controller of remote claims needs a cache of its own, and a concurrency of at least 1")
	}
	clients, err := workload.NewClients(mgr.GetAPIReader(), options.Workload)
	if err != nil {
		return err
	}
	connections := NewConnections(clients, mgr.GetScheme())
	if err := mgr.Add(connections); err != nil {
		return fmt.Errorf("adding connections to other clusters: %w", err)
	}
	r.Remotes = connections
	r.Read = Readers{
		Claims: options.Own, Secrets: options.Own, Namespaces: options.Own, Clusters: mgr.GetCache(), Live: mgr.GetAPIReader(),
	}
	if err := r.complete(); err != nil {
		return err
	}
	if err := reconcile.AddIndexes(ctx, options.Own, indexes()); err != nil {
		return err
	}
	awake := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		connections.wakes(func(source types.NamespacedName, after time.Duration) {
			queue.AddAfter(ctrl.Request{NamespacedName: source}, after)
		})
		return nil
	})
	work := reconcile.Work{
		Name: ControllerName, Concurrency: workers * options.Concurrency, Share: ofANamespace, Own: options.Own, RetryMax: retryMax,
	}
	if err := r.Place.Add(mgr, work, hostclaim.ClaimsIn(r.Read.Claims), r.watches(), r, awake); err != nil {
		return err
	}
	holder := &Holder{Client: r.Client, Read: r.Read}
	work.Name, work.Concurrency = CredentialsControllerName, options.Concurrency
	return r.Place.Add(mgr, work, holder.secretsIn, holder.watches(), holder)
}

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete() error {
	if r.Client == nil || r.Recorder == nil || r.Remotes == nil || r.Read.Claims == nil || r.Read.Secrets == nil ||
		r.Read.Clusters == nil || r.Read.Namespaces == nil || r.Read.Live == nil {
		return errors.New("the controller of remote claims needs a client, readers, other clusters and a recorder of events")
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.Metrics.Count(r.Read.Claims)
	return nil
}
