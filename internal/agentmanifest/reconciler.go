package agentmanifest

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/condition"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
)

// Reconciler keeps the manifest of Rancher's agent in a Secret, for CAPI Clusters that ask for that. All fields are
// required unless they say otherwise.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the management cluster, APIReader reads from its API server.
	Client    client.Client
	APIReader client.Reader
	// Rancher reads from the cache of Rancher's cluster, TokenSecrets from a cache of the metadata of the Secrets of
	// registration tokens there.
	Rancher      client.Reader
	TokenSecrets client.Reader
	// Settings reads Rancher's settings.
	Settings *rancher.Settings
	// Tokens finds the registration of a Rancher cluster.
	Tokens *rancher.Tokens
	// Downloader gets Rancher's import manifest.
	Downloader Downloader
	// Claim is what this instance works on, and Self what it is called on what it imports.
	Claim instance.Claim
	Self  instance.ID
	// Recorder publishes Events on CAPI Clusters.
	Recorder events.EventRecorder
	// Clock is the time; default the real one.
	Clock clock.PassiveClock

	written condition.Written
}

// Downloader gets Rancher's import manifest.
type Downloader interface {
	Manifest(ctx context.Context, registration rancher.Registration, trust rancher.Trust) (*rancher.Manifest, error)
}

// Reconcile implements reconcile.Reconciler. After an action it is decided again, on what came of that.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := Decide(o, r.Clock.Now())
	if d.Action != nil {
		ctrl.LoggerFrom(ctx).Info("Acting", "action", d.Action.String())
		if err := d.Action.do(ctx, r, &o); errors.Is(err, errOvertaken) {
			return ctrl.Result{}, nil
		} else if err != nil {
			return ctrl.Result{}, fmt.Errorf("%s: %w", d.Action, err)
		}
		d = Decide(o, r.Clock.Now())
	}
	if d.Action != nil { // It had no effect.
		d = publishing(o, r.Clock.Now(), outcome.Fail(FailedReason, errNoEffect))
	}
	if d.Publish != nil {
		if err := d.Publish.do(ctx, r, &o); errors.Is(err, condition.ErrOvertaken) {
			return ctrl.Result{}, nil // The event of that is on its way.
		} else if err != nil {
			return ctrl.Result{}, fmt.Errorf("%s: %w", d.Publish, err)
		}
	}
	if d.Event != nil {
		r.Recorder.Eventf(o.Cluster, nil, d.Event.Type, d.Event.Reason, "DeliverManifest", "%s", d.Event.Note)
	}
	return d.Outcome.Result()
}

var errNoEffect = errors.New("The API server accepted a write of the Secret, which did not take effect. " + //nolint:staticcheck // users read it
	"A mutating webhook or another controller may be reverting it")

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete() error {
	for name, missing := range map[string]bool{
		"Client": r.Client == nil, "APIReader": r.APIReader == nil, "Rancher": r.Rancher == nil, "TokenSecrets": r.TokenSecrets == nil,
		"Settings": r.Settings == nil, "Tokens": r.Tokens == nil, "Downloader": r.Downloader == nil, "Self": r.Self.Name == "", "Recorder": r.Recorder == nil,
	} {
		if missing {
			return fmt.Errorf("controller %s needs %s", ControllerName, name)
		}
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	return nil
}
