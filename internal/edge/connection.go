package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// KubeconfigKey is the key of the Secret that has the kubeconfig, as in CAPI's own Secrets.
const KubeconfigKey = "value"

// timeout bounds what is asked before the connection is there.
const timeout = 10 * time.Second

// Connection is the way to Rancher's cluster. Its credentials change below the clients that
// use it; its address does not.
type Connection struct {
	secret  types.NamespacedName
	clients kubernetes.Interface
	client  corev1client.SecretInterface
	config  *rest.Config
	logger  logr.Logger

	// server is what the first kubeconfig leads to. Resource versions that caches hold are of that server alone.
	server destination
	// way is what requests take at present.
	way atomic.Pointer[way]
}

// destination is what makes a server the same one.
type destination struct{ host, authority string }

func destinationOf(config *rest.Config) destination {
	return destination{host: config.Host, authority: string(config.CAData)}
}

// way is a transport with credentials.
type way struct {
	http.RoundTripper

	idle func()
}

// Connect reads the kubeconfig of Rancher's cluster from a Secret. It makes no request to that cluster. The kubeconfig
// has to be as kubeconfig.RESTConfig allows it: https, and everything in line.
func Connect(ctx context.Context, clients kubernetes.Interface, secret types.NamespacedName, logger logr.Logger) (*Connection, error) {
	if clients == nil || secret.Name == "" || secret.Namespace == "" {
		return nil, errors.New("the connection to Rancher's cluster needs a client, and a Secret")
	}
	c := &Connection{secret: secret, clients: clients, client: clients.CoreV1().Secrets(secret.Namespace), logger: logger.WithValues("secret", secret)}
	asking, done := context.WithTimeout(ctx, timeout)
	defer done()
	found, err := c.client.Get(asking, secret.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of Rancher's cluster: %w", err)
	}
	config, err := c.read(found)
	if err != nil {
		return nil, err
	}
	if err := c.take(config); err != nil {
		return nil, err
	}
	c.server = destinationOf(config)
	// The credentials are those of the way. client-go refuses TLS settings beside a transport, and needs the scheme.
	c.config = &rest.Config{Host: config.Host, Transport: c}
	return c, nil
}

// Config is for clients of Rancher's cluster. They outlive the credentials.
func (c *Connection) Config() *rest.Config { return rest.CopyConfig(c.config) }

// RoundTrip implements http.RoundTripper.
func (c *Connection) RoundTrip(req *http.Request) (*http.Response, error) {
	return c.way.Load().RoundTrip(req)
}

// Follow takes over new credentials until the context ends. It calls moved, with a sentence, when the kubeconfig leads
// to another server: what is known of the first one is not true there.
func (c *Connection) Follow(ctx context.Context, moved func(why string)) error {
	only := func(options *metav1.ListOptions) { options.FieldSelector = "metadata.name=" + c.secret.Name }
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			only(&options)
			return c.client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			only(&options)
			return c.client.Watch(ctx, options)
		},
	}, c.clients), &corev1.Secret{}, 0, nil)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.changed(object, moved) },
		UpdateFunc: func(_, object any) { c.changed(object, moved) },
		DeleteFunc: func(any) {
			c.logger.Info("The Secret with the kubeconfig of Rancher's cluster was deleted. Archelon uses the last one until there is a new one")
		},
	})
	if err != nil {
		return fmt.Errorf("following the kubeconfig of Rancher's cluster: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// changed takes over what a Secret says. What cannot be used changes nothing.
func (c *Connection) changed(object any, moved func(why string)) {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return
	}
	config, err := c.read(secret)
	if err == nil && destinationOf(config) != c.server {
		moved("The kubeconfig of Rancher's cluster leads to another server, or has another authority")
		return
	}
	if err == nil {
		err = c.take(config)
	}
	if err != nil {
		c.logger.Error(err, "The kubeconfig of Rancher's cluster cannot be used. Archelon uses the last one")
	}
}

// read returns what a Secret holds. The error does not quote it.
func (c *Connection) read(secret *corev1.Secret) (*rest.Config, error) {
	// An administrator writes it, and may have a proxy beside the manager.
	config, err := kubeconfig.RESTConfig(secret.Data[KubeconfigKey], kubeconfig.Allow{LocalProxies: true})
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig of Rancher's cluster, key %s of Secret %s, cannot be used: %w", KubeconfigKey, c.secret, err)
	}
	return config, nil
}

// take has requests use a kubeconfig from now on. Those under way end as they are; a watch lasts some minutes.
func (c *Connection) take(config *rest.Config) error {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return errors.New("it has certificates that cannot be used. Correct the Secret") // The cause may quote it.
	}
	base := workload.NewTransport(config, tls, timeout)
	wrapped, err := rest.HTTPWrappersForConfig(config, base)
	if err != nil {
		return errors.New("it has a token beside a user name and password. Keep one of them")
	}
	if former := c.way.Swap(&way{RoundTripper: wrapped, idle: base.CloseIdleConnections}); former != nil {
		former.idle()
	}
	return nil
}
