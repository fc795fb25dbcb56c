package setup

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	importer "github.com/archelon-io/archelon/internal/import"
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
		namespace, err := ownNamespace(opts)
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

// serveDuring serves while something else runs, and ends it when serving is not possible.
func (w *webhookServer) serveDuring(ctx context.Context, run func(context.Context) error) error {
	if w == nil {
		return run(ctx)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- w.Start(ctx)
	}()
	err := run(ctx)
	stop()
	if failed := <-served; failed != nil {
		return errors.Join(err, fmt.Errorf("serving webhooks: %w", failed))
	}
	return err
}

// addTo adds the probe, and the controller that keeps the certificates, to a manager.
func (w *webhookServer) addTo(mgr ctrl.Manager) error {
	if w == nil {
		return nil
	}
	return errors.Join(mgr.AddReadyzCheck("webhook", w.Ready), w.SetupWithManager(mgr))
}
