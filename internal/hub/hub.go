package hub

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	"sigs.k8s.io/multicluster-runtime/providers/kubeconfig"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// ControllerName is the name of the controller in logs, metrics and Events.
const ControllerName = "management-clusters"

// Target is a management cluster that is imported from.
type Target struct {
	// Name is that of its Secret.
	Name string
	// Display is how people call it.
	Display string
	// UID is that of its namespace kube-system.
	UID types.UID
	// Config leads to it.
	Config *rest.Config
}

// Progress is what an import tells while it runs.
type Progress struct {
	// Synced is called when the import has received what it works with.
	Synced func()
	// Served is called with a sentence while somebody else may import from the same management cluster, so that this
	// import waits; with "" when it goes on.
	Served func(why string)
}

// Options of the hub. All fields are required unless they say otherwise.
type Options struct {
	// Namespace has the Secrets with the kubeconfigs.
	Namespace string
	// Own is the UID of the cluster that Rancher is in.
	Own types.UID
	// Import imports from a management cluster until the context ends, and returns when nothing of it runs any more. It
	// returns a *LackingError where the account of the kubeconfig may not do what it needs, and a *ServedError when
	// somebody else has taken over.
	Import func(ctx context.Context, from Target, progress Progress) error
	// Connection changes the configuration of each connection. Optional.
	Connection func(*rest.Config) error
	// Cluster are the options of each connection.
	Cluster []cluster.Option
	// Registry is where metrics are registered.
	Registry prometheus.Registerer
}

// Hub imports from all management clusters that are registered.
type Hub struct {
	Options

	client   client.Client
	recorder events.EventRecorder
	engaged  *prometheus.GaugeVec
	logger   logr.Logger

	running sync.WaitGroup

	mu    sync.Mutex
	said  map[string]state
	sites map[*site]struct{}
	// turns has a token for each management cluster that may be imported from, by its UID: two
	// registrations of one never overlap.
	turns map[types.UID]chan struct{}
}

// SetupWithManager adds the hub to a manager, whose cache has to hold Secrets as Reduce leaves them.
//
//	archelon_management_cluster_engaged{cluster}     1: CAPI Clusters of this management cluster are imported; 0: they are not, see the Events of its Secret
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Namespace == "" || options.Own == "" || options.Import == nil || options.Registry == nil {
		return errors.New("the hub needs a namespace, the UID of its own cluster, what imports, and a registry of metrics")
	}
	h := newHub(mgr.GetClient(), mgr.GetEventRecorder(ControllerName), options)
	h.logger = mgr.GetLogger().WithName(ControllerName)
	if err := options.Registry.Register(h.engaged); err != nil {
		return fmt.Errorf("registering the metric of management clusters: %w", err)
	}
	provider := kubeconfig.New(kubeconfig.Options{
		Namespace: options.Namespace, KubeconfigSecretLabel: archelonv1.ManagementClusterKubeconfigLabel, KubeconfigSecretKey: KubeconfigKey,
		ClusterOptions: options.Cluster, RESTOptions: []func(*rest.Config) error{func(config *rest.Config) error {
			if options.Connection == nil {
				return nil
			}
			return options.Connection(config)
		}},
	})
	all, err := mcmanager.WithMultiCluster(mgr, provider)
	if err != nil {
		return fmt.Errorf("building the manager of management clusters: %w", err)
	}
	if err := all.Add(h); err != nil {
		return fmt.Errorf("adding the hub: %w", err)
	}
	if err := ctrl.NewControllerManagedBy(mgr).Named(ControllerName).For(&corev1.Secret{}).Complete(h); err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return provider.SetupWithManager(ctx, all)
}

func newHub(c client.Client, recorder events.EventRecorder, options Options) *Hub {
	return &Hub{
		Options: options, client: c, recorder: recorder, logger: logr.Discard(),
		engaged: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "archelon_management_cluster_engaged",
			Help: "1 if CAPI Clusters of a management cluster are imported, by the name of its Secret. 0 if not: the Events of the Secret say why. Only the leader has it.",
		}, []string{"cluster"}),
		said: map[string]state{}, sites: map[*site]struct{}{}, turns: map[types.UID]chan struct{}{},
	}
}

// Start implements manager.Runnable. It returns when nothing runs any more.
func (h *Hub) Start(ctx context.Context) error {
	<-ctx.Done()
	h.running.Wait()
	return nil
}

// Engage implements multicluster.Aware. It does not wait for the management cluster.
func (h *Hub) Engage(ctx context.Context, name multicluster.ClusterName, of cluster.Cluster) error {
	s := newSite(h, string(name), of.GetConfig())
	h.mu.Lock()
	h.sites[s] = struct{}{}
	h.mu.Unlock()
	h.running.Go(func() {
		s.work(ctx)
		h.mu.Lock()
		delete(h.sites, s)
		h.mu.Unlock()
	})
	return nil
}

// Reconcile has a change of a registration seen by all: one may be in the way of another. It says of a kubeconfig that
// nobody connects with why that is.
func (h *Hub) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	secret := &corev1.Secret{}
	err := h.client.Get(ctx, req.NamespacedName, secret)
	switch {
	case apierrors.IsNotFound(err):
		h.forget(req.Name)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("getting the Secret of a management cluster: %w", err)
	default:
		if registered := registrationOf(secret); registered.refused != "" {
			h.say(ctx, req.Name, observation{registration: registered}.decide().state)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.sites {
		s.wake()
	}
	return ctrl.Result{}, nil
}

// say publishes what is so of a management cluster, if that is new.
func (h *Hub) say(ctx context.Context, name string, now state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	secret := &corev1.Secret{}
	if err := h.client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, secret); err != nil {
		return // It is gone: there is nobody to say it of.
	}
	works := 0.0
	if now.reason == EngagedReason {
		works = 1
	}
	h.engaged.WithLabelValues(name).Set(works)
	if now.reason == "" || h.said[name] == now {
		return
	}
	h.said[name] = now
	kind := corev1.EventTypeWarning
	if now.reason == EngagedReason {
		kind = corev1.EventTypeNormal
	}
	h.recorder.Eventf(secret, nil, kind, now.reason, "Import", "%s", now.message)
	h.logger.Info(now.message, "managementCluster", name, "reason", now.reason)
}

// forget drops what was said of a management cluster whose registration is gone.
func (h *Hub) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.engaged.DeleteLabelValues(name) {
		h.logger.Info("The management cluster is not registered any more. Its CAPI Clusters and Rancher clusters stay as they are, with a finalizer: to release them, "+
			"run archelon uninstall there and archelon forget here", "managementCluster", name, "finalizer", archelonv1.ImportFinalizer)
	}
	delete(h.said, name)
}

// turn returns what is to be taken before a management cluster is imported from, and given back afterwards.
func (h *Hub) turn(uid types.UID) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turns[uid] == nil {
		h.turns[uid] = make(chan struct{}, 1)
	}
	return h.turns[uid]
}

// registrations returns all, as the cache has them, and the Secret of a name.
func (h *Hub) registrations(ctx context.Context, name string) ([]registration, *corev1.Secret, error) {
	list := &corev1.SecretList{}
	if err := h.client.List(ctx, list, client.InNamespace(h.Namespace)); err != nil {
		return nil, nil, fmt.Errorf("listing management clusters: %w", err)
	}
	var all []registration
	var own *corev1.Secret
	for i := range list.Items {
		all = append(all, registrationOf(&list.Items[i]))
		if list.Items[i].Name == name {
			own = &list.Items[i]
		}
	}
	return all, own, nil
}
