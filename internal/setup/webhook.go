package setup

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/webhook"
)

// clusterWebhookPath is where the API server asks about CAPI Clusters. It stands in the ValidatingWebhookConfiguration too.
const clusterWebhookPath = "/validate-cluster-x-k8s-io-v1beta2-cluster"

// webhookServer serves the webhooks of this process; nil if they are off.
type webhookServer struct{ *webhook.Server }

// newWebhook builds what the options ask for.
func newWebhook(config *rest.Config, opts *options.Options) (*webhookServer, error) {
	if !opts.Webhook.Enabled() {
		return nil, nil
	}
	s, err := scheme.New()
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	counts, err := webhook.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	settings := webhook.Options{
		BindAddress: opts.Webhook.BindAddress, CertDir: opts.Webhook.CertDir,
		Config: config, Scheme: s, Mapper: scheme.Mapper(), Metrics: counts,
	}
	if opts.Webhook.Secret != "" {
		namespace, err := webhookNamespace(opts)
		if err != nil {
			return nil, err
		}
		settings.Secret = client.ObjectKey{Namespace: namespace, Name: opts.Webhook.Secret}
		settings.Service, settings.Configuration = opts.Webhook.Service, opts.Webhook.Configuration
	}
	server, err := webhook.New(settings)
	if err != nil {
		return nil, err
	}
	server.Handle(clusterWebhookPath, admission.WithValidator(s, importer.ClusterValidator{}))
	return &webhookServer{server}, nil
}

// webhookNamespace returns the namespace of the webhook's Secret and Service: that of the Pod. Leases may be in another one.
func webhookNamespace(opts *options.Options) (string, error) {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace, nil
	}
	if namespace, err := instance.Namespace(); err == nil {
		return namespace, nil
	}
	return coordinationNamespace(opts)
}

// serve serves until the context ends, unless webhooks are off.
func (w *webhookServer) serve(ctx context.Context) error {
	if w == nil {
		return nil
	}
	return w.Start(ctx)
}

// checks are what the readiness of this process depends on.
func (w *webhookServer) checks() map[string]healthz.Checker {
	if w == nil {
		return nil
	}
	return map[string]healthz.Checker{"webhook": w.Ready}
}

// addTo adds the controller that keeps the certificates to a manager.
func (w *webhookServer) addTo(mgr ctrl.Manager) error {
	if w == nil {
		return nil
	}
	return w.SetupWithManager(mgr)
}
