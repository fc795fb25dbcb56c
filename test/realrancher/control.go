package realrancher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Control does with a real Rancher what tests do with the stand-in. What only the stand-in can be told is an error.
type Control struct {
	world *World
	// failed is told of errors of those methods that return none.
	failed func(error)
}

var _ rancher.Control = &Control{}

// Control returns what controls Rancher. failed is told of errors of methods that return none.
func (w *World) Control(failed func(error)) *Control { return &Control{world: w, failed: failed} }

var errReal = errors.New("a real Rancher cannot be told to do that")

// AddWorkload implements rancher.Control. Rancher knows a workload cluster by its agent alone, which runs.
func (c *Control) AddWorkload(string, *rest.Config, ...rancher.Workload) error { return nil }

// RemoveWorkload implements rancher.Control. The agent goes with its Deployment.
func (c *Control) RemoveWorkload(string) {}

// HoldTokens implements rancher.Control.
func (c *Control) HoldTokens(context.Context, bool) error { return errReal }

// HoldConnect implements rancher.Control.
func (c *Control) HoldConnect(bool) { c.failed(errReal) }

// RequireAgentEnv implements rancher.Control.
func (c *Control) RequireAgentEnv(string) { c.failed(errReal) }

// SetFault implements rancher.Control.
func (c *Control) SetFault(rancher.Fault) { c.failed(errReal) }

// ClearFaults implements rancher.Control.
func (c *Control) ClearFaults() {}

// ImportRequests implements rancher.Control.
func (c *Control) ImportRequests() []rancher.Request {
	c.failed(errReal)
	return nil
}

// Connected implements rancher.Control.
func (c *Control) Connected(cluster string) (string, bool) {
	v3, err := c.cluster(context.Background(), cluster)
	if client.IgnoreNotFound(err) != nil {
		c.failed(err)
	}
	return "workload", err == nil && conditionTrue(v3, "Connected")
}

func (c *Control) cluster(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	v3 := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "management.cattle.io/v3", "kind": "Cluster"}}
	return v3, c.world.Client.Get(ctx, client.ObjectKey{Name: name}, v3)
}

// Reapplies implements rancher.Control. Rancher applies its agent with kubectl, which says so in its requests to the
// workload cluster. There is one workload cluster, so that those for earlier Rancher clusters count as well.
func (c *Control) Reapplies(string) int {
	events, err := c.world.Workload.AuditEvents()
	if err != nil {
		c.failed(err)
	}
	applied := 0
	for i := range events {
		event := &events[i]
		if event.Verb == "patch" && event.ObjectRef != nil && event.ObjectRef.Resource == "deployments" && event.ObjectRef.Name == "cattle-cluster-agent" &&
			strings.Contains(event.RequestURI, "fieldManager=kubectl") {
			applied++
		}
	}
	return applied
}

// SetServerURL implements rancher.Control.
func (c *Control) SetServerURL(ctx context.Context, url string) error {
	return c.world.set(ctx, "server-url", url)
}

// SetAgentTLSMode implements rancher.Control.
func (c *Control) SetAgentTLSMode(ctx context.Context, mode string) error {
	return c.world.set(ctx, "agent-tls-mode", mode)
}

// SetFeature turns a feature of Rancher on or off. It has to be one that Rancher does not start again for.
func (c *Control) SetFeature(ctx context.Context, name string, on bool) error {
	feature := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "management.cattle.io/v3", "kind": "Feature"}}
	feature.SetName(name)
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"value":%t}}`, on))
	if err := c.world.Client.Patch(ctx, feature, patch); err != nil {
		return fmt.Errorf("setting feature %s: %w", name, err)
	}
	return nil
}

// RotateCA implements rancher.Control. Rancher makes a new CA, and says so in setting cacerts, when it starts and finds
// none. Its webhook refuses every change of that setting, Rancher's too, with which Rancher ends: it is away meanwhile.
func (c *Control) RotateCA(ctx context.Context) error {
	before := c.CACert()
	c.Down()
	if err := c.DownWebhook(ctx); err != nil {
		return err
	}
	for _, config := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}} {
		config.SetName(webhookConfig)
		if err := c.world.Client.Delete(ctx, config); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the configuration of Rancher's webhook: %w", err)
		}
	}
	for _, name := range []string{"tls-rancher", "serving-cert"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: rancherNamespace, Name: name}}
		if err := c.world.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting what Rancher serves with: %w", err)
		}
	}
	if err := c.Up(ctx); err != nil {
		return err
	}
	if bytes.Equal(before, c.CACert()) {
		return errors.New("Rancher has no other CA after it started without one") //nolint:staticcheck // a name
	}
	return c.world.startWebhook(ctx)
}

// RotateToken implements rancher.Control. Rancher rotates a token at the end of its time,
// which is a field of its status.
func (c *Control) RotateToken(ctx context.Context, cluster string) error {
	token := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken"}}
	token.SetNamespace(cluster)
	token.SetName("default-token")
	past := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"expiresAt":%q}}`, past))
	if err := c.world.Client.Patch(ctx, token, patch); err != nil {
		return fmt.Errorf("ending the time of the token of %s: %w", cluster, err)
	}
	return nil
}

// URL implements rancher.Control.
func (c *Control) URL() string { return c.world.installed.url() }

// CACert implements rancher.Control.
func (c *Control) CACert() []byte {
	setting := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "management.cattle.io/v3", "kind": "Setting"}}
	if err := c.world.Client.Get(context.Background(), client.ObjectKey{Name: "cacerts"}, setting); err != nil {
		c.failed(err)
	}
	value, _, _ := unstructured.NestedString(setting.Object, "value")
	return []byte(value)
}

// Down implements rancher.Control: Rancher is killed, like a Pod on a machine that is lost.
func (c *Control) Down() {
	if err := c.world.installed.down(context.Background(), rancherName); err != nil {
		c.failed(err)
	}
}

// Up implements rancher.Control.
func (c *Control) Up(ctx context.Context) error { return c.world.installed.up(ctx, rancherName) }

// DownWebhook kills Rancher's webhook, whose configurations stay.
func (c *Control) DownWebhook(ctx context.Context) error {
	return c.world.installed.down(ctx, webhookName)
}

// UpWebhook starts it again.
func (c *Control) UpWebhook(ctx context.Context) error { return c.world.startWebhook(ctx) }

// Stop implements rancher.Control. The world is used by others after this.
func (c *Control) Stop() {}
