package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// filePoll is how often a directory is looked at. Files that come with a volume cannot be watched before they exist, nor while they are swapped.
const filePoll = time.Second

// Options say where to serve, and where certificates come from: either CertDir is set, or Secret, Service and Configuration are.
type Options struct {
	// BindAddress is host:port; the host may be empty.
	BindAddress string
	// CertDir is a directory with tls.crt and tls.key that somebody else keeps up to date.
	CertDir string
	// Secret holds certificates that this package makes.
	Secret client.ObjectKey
	// Service is the name of the Service in the namespace of the Secret.
	Service string
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration string

	// Config, Scheme and Mapper reach the API server; a directory needs none of them.
	Config *rest.Config
	Scheme *runtime.Scheme
	Mapper meta.RESTMapper
	// Metrics is required.
	Metrics *Metrics
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// Server serves webhooks. It is no runnable of a manager, for it has to serve before there is one, and while another takes its place.
type Server struct {
	opts    Options
	server  crwebhook.Server
	serving *serving
	objects cache.Cache // nil with a directory
	client  client.Client
	logger  logr.Logger
	order   sync.Mutex // of certificates from files
}

// New returns a server that has no webhooks yet.
func New(opts Options) (*Server, error) {
	if opts.Metrics == nil {
		return nil, errors.New("a webhook server needs metrics")
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	host, port, err := net.SplitHostPort(opts.BindAddress)
	if err != nil {
		return nil, fmt.Errorf("the address of the webhook: %w", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("the port of the webhook: %w", err)
	}
	logger := ctrl.Log.WithName("webhook")
	s := &Server{
		opts: opts, logger: logger,
		serving: &serving{clock: opts.Clock, metrics: opts.Metrics, logger: logger},
	}
	s.server = crwebhook.NewServer(crwebhook.Options{Host: host, Port: int(number), TLSOpts: []func(*tls.Config){func(config *tls.Config) {
		config.MinVersion = tls.VersionTLS12
		config.GetCertificate = s.serving.get
		// As with other endpoints of controllers: nothing here needs HTTP/2, whose streams have been a way to exhaust servers.
		config.NextProtos = []string{"http/1.1"}
	}}})
	if opts.CertDir != "" {
		return s, nil
	}
	return s, s.connect()
}

// connect builds the client and the cache for the two objects.
func (s *Server) connect() error {
	httpClient, err := rest.HTTPClientFor(s.opts.Config)
	if err != nil {
		return fmt.Errorf("building a client for webhook certificates: %w", err)
	}
	s.client, err = client.New(s.opts.Config, client.Options{HTTPClient: httpClient, Scheme: s.opts.Scheme, Mapper: s.opts.Mapper})
	if err != nil {
		return fmt.Errorf("building a client for webhook certificates: %w", err)
	}
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	s.objects, err = cache.New(s.opts.Config, cache.Options{
		HTTPClient: httpClient, Scheme: s.opts.Scheme, Mapper: s.opts.Mapper,
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Field: named(s.opts.Secret.Name), Namespaces: map[string]cache.Config{s.opts.Secret.Namespace: {}}},
			&admissionregistrationv1.ValidatingWebhookConfiguration{}: {Field: named(s.opts.Configuration)},
		},
	})
	if err != nil {
		return fmt.Errorf("building the cache of webhook certificates: %w", err)
	}
	return nil
}

// Handle serves a webhook at a path.
func (s *Server) Handle(path string, hook *admission.Webhook) {
	handler := hook.Handler
	hook.Handler = admission.HandlerFunc(func(ctx context.Context, request admission.Request) admission.Response {
		response := handler.Handle(ctx, request)
		s.opts.Metrics.answered(path, response.Allowed)
		return response
	})
	s.server.Register(path, hook)
}

// Ready is a readiness check. It fails while there is no certificate to serve.
func (s *Server) Ready(request *http.Request) error { return s.serving.ready(request) }

// SetupWithManager adds the controller that keeps the certificates, unless somebody else does.
func (s *Server) SetupWithManager(mgr ctrl.Manager) error {
	if s.objects == nil {
		return nil
	}
	keeper := &Keeper{
		Client: s.client, Events: s.objects, Clock: s.opts.Clock,
		Secret: s.opts.Secret, Service: s.opts.Service, Configuration: s.opts.Configuration,
	}
	return keeper.SetupWithManager(mgr)
}

// Start serves until the context ends. Only an address that cannot be bound is an error: without a certificate connections are refused until there is one.
func (s *Server) Start(ctx context.Context) error {
	follow := s.followSecret
	if s.objects == nil {
		follow = s.followFiles
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	var followed error
	running.Go(func() {
		if followed = follow(ctx); followed != nil {
			stop()
		}
	})
	err := s.server.Start(ctx)
	stop()
	running.Wait()
	return errors.Join(err, followed)
}

// followSecret offers what the Secret holds, whenever it changes. What clients would not accept is left alone, and what was served before goes on.
func (s *Server) followSecret(ctx context.Context) error {
	informer, err := s.objects.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching the Secret of the webhook's certificates: %w", err)
	}
	names := namesOf(s.opts.Service, s.opts.Secret.Namespace)
	offer := func(object any) {
		secret, ok := object.(*corev1.Secret)
		if !ok {
			return
		}
		pair := servable(secret.Data, names, s.opts.Clock.Now())
		if pair == nil {
			s.logger.Info("The Secret holds no certificate that clients would accept", "secret", s.opts.Secret)
			return
		}
		s.serving.offer(pair)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: offer, UpdateFunc: func(_, object any) { offer(object) }}); err != nil {
		return fmt.Errorf("watching the Secret of the webhook's certificates: %w", err)
	}
	return s.objects.Start(ctx)
}

// followFiles offers what is in the directory, whenever it changes.
func (s *Server) followFiles(ctx context.Context) error {
	certificate, key := filepath.Join(s.opts.CertDir, tlsCert), filepath.Join(s.opts.CertDir, tlsKey)
	reported := false
	// It ends with the context only: files that vanish may come back.
	_ = wait.PollUntilContextCancel(ctx, filePoll, true, func(ctx context.Context) (bool, error) {
		watcher, err := certwatcher.New(certificate, key)
		if err != nil {
			if !reported {
				s.logger.Info("There is no certificate for the webhook yet; waiting for tls.crt and tls.key", "directory", s.opts.CertDir)
			}
			reported = true
			return false, nil
		}
		watcher.WithWatchInterval(filePoll).RegisterCallback(func(tls.Certificate) { go s.offerCurrent(watcher) })
		if err := watcher.Start(ctx); err != nil && ctx.Err() == nil {
			s.logger.Info("The directory of the webhook's certificate cannot be watched; trying again", "directory", s.opts.CertDir)
		}
		return false, nil
	})
	return nil
}

// offerCurrent offers what a watcher has now. Its callbacks may overtake each other, so what they are called with may be old; and the first is made
// under the lock that asking takes.
func (s *Server) offerCurrent(watcher *certwatcher.CertWatcher) {
	s.order.Lock()
	defer s.order.Unlock()
	if pair, err := watcher.GetCertificate(nil); err == nil && pair != nil {
		s.serving.offer(pair)
	}
}
