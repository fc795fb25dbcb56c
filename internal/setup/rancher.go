package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/edge"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/internal/version"
)

// otherRancher is a Rancher in another cluster; nil where it is in the management cluster.
type otherRancher struct {
	connection *edge.Connection
	// origin is the management cluster, by which its Rancher clusters are told from those of others.
	origin types.UID
}

// connect prepares the way to Rancher's cluster, if that is another one. It makes no request to it: a Rancher that does
// not answer is waited for, as its CRDs are.
func (p *process) connect(ctx context.Context) (*otherRancher, error) {
	if !p.opts.Gates.Enabled(feature.RemoteRancher) {
		return nil, nil //nolint:nilnil // there is none
	}
	clients, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return nil, fmt.Errorf("building a client for the kubeconfig of Rancher's cluster: %w", err)
	}
	// It lists, within a name: that needs no other permission than the watch on Namespaces.
	found, err := clients.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + metav1.NamespaceSystem})
	if err != nil {
		return nil, fmt.Errorf("reading the UID of the management cluster: %w", err)
	}
	if len(found.Items) != 1 {
		return nil, errors.New("the management cluster has no namespace kube-system, whose UID its Rancher clusters carry")
	}
	connection, err := edge.Connect(ctx, clients, p.opts.RancherSecret(), p.logger)
	if err != nil {
		return nil, err
	}
	return &otherRancher{connection: connection, origin: found.Items[0].UID}, nil
}

// originOf is what the Rancher clusters of this management cluster carry; empty where Rancher is in it.
func (r *otherRancher) originOf() types.UID {
	if r == nil {
		return ""
	}
	return r.origin
}

// here are the controllers with what they receive from the management cluster.
func (r *otherRancher) here(all []controller.Controller) []controller.Controller {
	if r == nil {
		return all
	}
	return receiving(all, false)
}

// receiving limits controllers to what they receive from one of the two clusters.
func receiving(all []controller.Controller, rancher bool) []controller.Controller {
	var limited []controller.Controller
	for _, c := range all {
		watches := c.Watches
		c.Watches = func(scope shard.Scope) []controller.Watch {
			var kept []controller.Watch
			for _, watch := range watches(scope) {
				if watch.Rancher == rancher {
					kept = append(kept, watch)
				}
			}
			return kept
		}
		limited = append(limited, c)
	}
	return limited
}

// located is Rancher's cluster.
type located struct {
	cluster.Cluster

	// config is nil if it is the management cluster.
	config *rest.Config
}

// cluster returns Rancher's cluster, which is the management cluster of the manager unless there is another one.
// That is added to the manager.
func (r *otherRancher) cluster(
	mgr ctrl.Manager, guard func(*rest.Config) *rest.Config, on []controller.Controller, scope shard.Scope, syncPeriod time.Duration, end *ending,
) (located, error) {
	if r == nil {
		return located{Cluster: mgr}, nil
	}
	config := r.connection.Config()
	config.QPS, config.Burst = mgr.GetConfig().QPS, mgr.GetConfig().Burst
	config.UserAgent = version.Get().UserAgent()
	config = guard(config)
	cacheOf, err := narrowed(scoped(shard.Scope{}, syncPeriod), nil, receiving(on, true), scope)
	if err != nil {
		return located{}, err
	}
	rancher, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme = mgr.GetScheme()
		o.MapperProvider = staticMapper
		o.Cache, o.Client = cacheOf, clientOptions()
	})
	if err != nil {
		return located{}, fmt.Errorf("building the client of Rancher's cluster: %w", err)
	}
	if err := mgr.Add(everywhere(rancher.Start)); err != nil {
		return located{}, fmt.Errorf("adding Rancher's cluster: %w", err)
	}
	return located{Cluster: published{rancher}, config: config}, r.follow(mgr, end)
}

// published is Rancher's cluster with clients whose errors tenants may read.
type published struct{ cluster.Cluster }

// GetClient implements cluster.Cluster.
func (p published) GetClient() client.Client { return edge.Published(p.Cluster.GetClient()) }

// GetAPIReader implements cluster.Cluster.
func (p published) GetAPIReader() client.Reader {
	return edge.PublishedReader(p.Cluster.GetAPIReader())
}

// staticMapper knows the kinds that this program uses: nobody has to be asked.
func staticMapper(*rest.Config, *http.Client) (meta.RESTMapper, error) { return scheme.Mapper(), nil }

// follow takes over new credentials, and ends the process when the kubeconfig leads elsewhere.
func (r *otherRancher) follow(mgr ctrl.Manager, end *ending) error {
	err := mgr.Add(everywhere(func(ctx context.Context) error {
		return r.connection.Follow(ctx, func(why string) { end.because(why) })
	}))
	if err != nil {
		return fmt.Errorf("adding the watch over the kubeconfig of Rancher's cluster: %w", err)
	}
	return nil
}

// both returns clients of the management cluster and of Rancher's, where that is another one, for what
// goes through objects of both.
func (r *otherRancher) both(mgr ctrl.Manager, rancher cluster.Cluster) (client.Reader, client.Client) {
	if r == nil {
		return mgr.GetAPIReader(), mgr.GetClient()
	}
	return edge.RouteReader(mgr.GetAPIReader(), rancher.GetAPIReader(), mgr.GetScheme()), edge.Route(mgr.GetClient(), rancher.GetClient())
}
