package realrancher

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/env"
)

const (
	rancherNamespace = "cattle-system"
	rancherName      = "rancher"
	webhookName      = "rancher-webhook"
	webhookConfig    = "rancher.cattle.io"
	// password is that of Rancher's administrator, whom nobody is.
	password = "only-for-tests-1234"
	// startTimeout is how long Rancher may take to do what it does when it starts, images that are pulled included.
	startTimeout = 10 * time.Minute
	stopTimeout  = 30 * time.Second
)

// World is a management cluster with Rancher and one workload cluster, in which agents run.
type World struct {
	Management *env.ControlPlane
	Workload   *env.ControlPlane
	// Client is an administrator's of the management cluster, without a cache.
	Client client.Client

	installed installation
}

// installation is how Rancher and its webhook were installed, and so how they are started and ended. Rancher is called
// rancherName, and the webhook webhookName.
type installation interface {
	// url is what Rancher is told to be its server-url.
	url() string
	// up starts one of them and waits until it answers.
	up(ctx context.Context, name string) error
	// down kills one of them, like a Pod on a machine that is lost. What it has registered stays.
	down(ctx context.Context, name string) error
	// stop ends everything.
	stop() error
}

// capiCRDs are those that Rancher waits for.
func capiCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return env.CAPICRDs("clusters", "clusterclasses", "machines", "machinesets", "machinedeployments", "machinehealthchecks", "machinepools")
}

// connect makes the client.
func (w *World) connect() error {
	known, err := scheme.New()
	if err != nil {
		return err
	}
	w.Client, err = client.New(w.Management.Config, client.Options{Scheme: known})
	return err
}

// begin starts Rancher for the first time, and waits until it serves also the API that others reach through the API
// server, and its webhook.
func (w *World) begin(ctx context.Context) error {
	if err := w.installed.up(ctx, rancherName); err != nil {
		return err
	}
	if err := await(ctx, "setting server-url", func(ctx context.Context) error { return w.set(ctx, "server-url", w.installed.url()) }); err != nil {
		return err
	}
	err := await(ctx, "the API that Rancher adds to Kubernetes", func(ctx context.Context) error {
		service := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}}
		if err := w.Client.Get(ctx, client.ObjectKey{Name: "v1.ext.cattle.io"}, service); err != nil {
			return err
		}
		if !conditionTrue(service, "Available") {
			return errors.New("APIService v1.ext.cattle.io is not available")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.startWebhook(ctx)
}

// startWebhook starts Rancher's webhook and waits until the API server has been told of it and reaches it.
func (w *World) startWebhook(ctx context.Context) error {
	if err := w.installed.up(ctx, webhookName); err != nil {
		return err
	}
	err := await(ctx, "the registration of Rancher's webhook", func(ctx context.Context) error {
		return w.Client.Get(ctx, client.ObjectKey{Name: webhookConfig}, &admissionregistrationv1.ValidatingWebhookConfiguration{})
	})
	if err != nil {
		return err
	}
	return await(ctx, "Rancher's webhook", func(ctx context.Context) error {
		probe := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "spec": map[string]any{}}}
		probe.SetNamespace(metav1.NamespaceDefault)
		probe.SetName("probe")
		probe.SetAnnotations(map[string]string{"field.cattle.io/no-creator-rbac": "true"}) // a creator cannot be tried
		return w.Client.Create(ctx, probe, client.DryRunAll)
	})
}

// set changes a setting of Rancher.
func (w *World) set(ctx context.Context, name, value string) error {
	setting := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "management.cattle.io/v3", "kind": "Setting"}}
	setting.SetName(name)
	patch := fmt.Appendf(nil, `{"value":%q}`, value)
	if err := w.Client.Patch(ctx, setting, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("changing setting %s: %w", name, err)
	}
	return nil
}

func conditionTrue(object *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		condition, _ := each.(map[string]any)
		if condition["type"] == kind {
			return condition["status"] == "True"
		}
	}
	return false
}

// await tries until what is asked for is so, and returns the last error if it does not get so in time.
func await(ctx context.Context, what string, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// Stop ends everything that was started with Rancher.
func (w *World) Stop() error { return w.installed.stop() }
