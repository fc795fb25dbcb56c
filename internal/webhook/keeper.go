package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// fieldOwner names the writer in the managed fields of what it writes.
const fieldOwner = client.FieldOwner("archelon-webhook")

// Keeper is the controller that makes and renews the certificates and publishes their CA. All replicas run it, whoever leads: when the webhook is
// switched on by a rolling update, the leader is a replica without it until one with a certificate is ready. Several at a time do no harm: each write is
// bound to the version that it was planned on. All fields are required.
type Keeper struct {
	// Client reads from the API server, not from a cache: a plan needs both objects as they are.
	Client client.Client
	// Events tells of changes of the two objects.
	Events cache.Cache
	// Clock tells the time.
	Clock clock.PassiveClock
	// Secret holds the certificates.
	Secret client.ObjectKey
	// Service is the name of the Service in the namespace of the Secret.
	Service string
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration string

	// since says from when on a CA is known to be published.
	since map[fingerprint]time.Time

	mu sync.Mutex
	// unwatch ends what changesOf began. The cache outlives the manager.
	unwatch []func()
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (k *Keeper) SetupWithManager(mgr ctrl.Manager) error {
	if k.Client == nil || k.Events == nil || k.Clock == nil || k.Secret.Name == "" || k.Secret.Namespace == "" || k.Service == "" || k.Configuration == "" {
		return errors.New("the keeper of webhook certificates needs a client, a cache, a clock and the names of Secret, Service and configuration")
	}
	k.since = map[fingerprint]time.Time{}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("webhook-certificates").
		WatchesRawSource(k.changesOf(&corev1.Secret{})).
		WatchesRawSource(k.changesOf(&admissionregistrationv1.ValidatingWebhookConfiguration{})).
		WithOptions(controller.Options{NeedLeaderElection: new(false)}).
		Complete(k)
	if err != nil {
		return fmt.Errorf("building controller webhook-certificates: %w", err)
	}
	return mgr.Add(unwatcher{k})
}

// unwatcher ends the watches of a keeper together with its manager. It is a manager.Runnable.
type unwatcher struct{ *Keeper }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (unwatcher) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (u unwatcher) Start(ctx context.Context) error {
	<-ctx.Done()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, end := range u.unwatch {
		end()
	}
	return nil
}

// changesOf asks for a reconcile at the start and after each change of an object. Other than source.Kind it does not wait until the object can be watched,
// for that would end the whole manager where the right to it is missing.
func (k *Keeper) changesOf(object client.Object) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		request := reconcile.Request{NamespacedName: k.Secret}
		queue.Add(request)
		informer, err := k.Events.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		changed := func(any) { queue.Add(request) }
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: changed, UpdateFunc: func(any, any) { queue.Add(request) }, DeleteFunc: changed,
		})
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.unwatch = append(k.unwatch, func() { _ = informer.RemoveEventHandler(registration) })
		return nil
	})
}

// Reconcile implements reconcile.Reconciler.
func (k *Keeper) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	secret, err := k.ensureSecret(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	configuration, err := k.configuration(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := k.Clock.Now()
	bundles := bundlesOf(configuration)
	observe(k.since, bundles, now)
	p, err := decide(situation{secret: secret.Data, bundles: bundles, since: k.since, names: namesOf(k.Service, k.Secret.Namespace), now: now})
	if err != nil {
		return ctrl.Result{}, err
	}
	// In this order, so that no CA is published whose key is lost.
	err = k.write(ctx, secret, p)
	if err == nil {
		err = k.publish(ctx, configuration, p.bundle)
	}
	if apierrors.IsConflict(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("Somebody else was faster; planning again")
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	observe(k.since, bundlesOf(configuration), now)
	return ctrl.Result{RequeueAfter: max(p.next.Sub(now), time.Second)}, nil
}

// ensureSecret returns the Secret, which it creates empty if it is missing: by server-side apply, because only there can RBAC limit creation to a name.
func (k *Keeper) ensureSecret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := k.Client.Get(ctx, k.Secret, secret)
	if err == nil || !apierrors.IsNotFound(err) {
		return secret, wrap("getting the Secret of the webhook's certificates", err)
	}
	if err := k.Client.Apply(ctx, corev1apply.Secret(k.Secret.Name, k.Secret.Namespace).WithType(corev1.SecretTypeOpaque), fieldOwner); err != nil {
		return nil, fmt.Errorf("the Secret %s for the webhook's certificates is missing and cannot be created; create it, empty, or allow create on its name: %w", k.Secret, err)
	}
	ctrl.LoggerFrom(ctx).Info("Created the Secret for the webhook's certificates, which was missing")
	return secret, wrap("getting the Secret of the webhook's certificates", k.Client.Get(ctx, k.Secret, secret))
}

// configuration returns the webhook configuration, one without webhooks if it is missing. It may come later, or never.
func (k *Keeper) configuration(ctx context.Context) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := k.Client.Get(ctx, client.ObjectKey{Name: k.Configuration}, configuration)
	if apierrors.IsNotFound(err) {
		ctrl.LoggerFrom(ctx).Info("The ValidatingWebhookConfiguration does not exist; the API server does not call the webhook", "configuration", k.Configuration)
		return &admissionregistrationv1.ValidatingWebhookConfiguration{}, nil
	}
	return configuration, wrap("getting the webhook configuration", err)
}

// write brings the planned content into the Secret.
func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, p plan) error {
	if maps.EqualFunc(secret.Data, p.secret, bytes.Equal) {
		return nil
	}
	before := secret.DeepCopy()
	secret.Data = p.secret
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := k.Client.Patch(ctx, secret, patch, fieldOwner); err != nil {
		return wrap("writing the webhook's certificates", err)
	}
	logger := ctrl.LoggerFrom(ctx)
	if p.authority {
		logger.Info("Made a CA for the webhook")
	}
	if p.certificate {
		logger.Info("Made a certificate for the webhook")
	}
	if !p.authority && !p.certificate {
		logger.Info("Changed which CAs of the webhook are trusted")
	}
	return nil
}

// publish brings the CAs into all webhooks of the configuration. A strategic merge patch touches, and owns, no other field.
func (k *Keeper) publish(ctx context.Context, configuration *admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte) error {
	before := configuration.DeepCopy()
	changed := false
	for i := range configuration.Webhooks {
		if config := &configuration.Webhooks[i].ClientConfig; !bytes.Equal(config.CABundle, bundle) {
			config.CABundle = bundle
			changed = true
		}
	}
	if !changed {
		return nil
	}
	patch := client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
	if err := k.Client.Patch(ctx, configuration, patch, fieldOwner); err != nil {
		return wrap("publishing the webhook's CA", err)
	}
	ctrl.LoggerFrom(ctx).Info("Published the CA of the webhook", "configuration", k.Configuration)
	return nil
}

func bundlesOf(configuration *admissionregistrationv1.ValidatingWebhookConfiguration) [][]byte {
	bundles := make([][]byte, 0, len(configuration.Webhooks))
	for i := range configuration.Webhooks {
		bundles = append(bundles, configuration.Webhooks[i].ClientConfig.CABundle)
	}
	return bundles
}

// namesOf returns the names of a Service. The API server calls it by the third.
func namesOf(service, namespace string) []string {
	return []string{service, service + "." + namespace, service + "." + namespace + ".svc", service + "." + namespace + ".svc.cluster.local"}
}

func wrap(action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", action, err)
}
