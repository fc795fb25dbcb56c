package setup

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/identity/translation"
)

// setupTranslation adds the controller of Rancher's cloud credentials for OCI, in the instance that works in the
// namespace of the identities.
func (p *parts) setupTranslation(ctx context.Context, env controller.Env) error {
	namespace := p.opts.Credentials.Namespace
	if !p.place.claim.Scope.Owns(namespace) {
		ctrl.LoggerFrom(ctx).Info("Cloud credentials for OCI are left to the instance that works in the namespace of "+
			"their identities", "namespace", namespace)
		return nil
	}
	policy, err := p.opts.Credentials.Policy()
	if err != nil {
		return err
	}
	meters, err := translation.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("registering the metrics of cloud credentials: %w", err)
	}
	reconciler := &translation.Reconciler{
		Client: env.Manager.GetClient(), Live: env.Manager.GetAPIReader(),
		Objects: env.Manager.GetCache(), Metadata: env.Own,
		Recorder: env.Manager.GetEventRecorder(translation.ControllerName), Policy: policy, Scope: p.place.claim.Scope,
		Metrics: meters,
	}
	return reconciler.SetupWithManager(env.Manager, translation.Options{Concurrency: p.opts.Concurrency, Own: env.Own})
}
