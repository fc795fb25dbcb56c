package stage

import (
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/archelon-io/archelon/test/process"
)

const (
	webhookKind = "ValidatingWebhookConfiguration"
	// here is a host that leads to programs of this machine. The API server verifies that the certificate has it.
	here = "localhost"
)

// serveHere has the API server call the webhook of a manager that is a program of this machine, if the chart has one: Services lead nowhere where
// there are no Pods. All else about it stays as the chart has it, and so do the rights.
func (r *release) serveHere() error {
	for i := range r.objects {
		if r.objects[i].GetKind() != webhookKind {
			continue
		}
		addresses, err := process.FreeAddresses(1)
		if err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(addresses[0])
		if err != nil {
			return err
		}
		if err := callAt(&r.objects[i], net.JoinHostPort(here, port)); err != nil {
			return fmt.Errorf("reading the webhook configuration of the chart: %w", err)
		}
		// The last of a flag counts.
		r.args = append(r.args, "--webhook-bind-address="+addresses[0], "--webhook-service="+here)
	}
	return nil
}

// callAt replaces the Services of a webhook configuration by URLs.
func callAt(configuration *unstructured.Unstructured, address string) error {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return err
	}
	for i := range webhooks {
		webhook, ok := webhooks[i].(map[string]any)
		if !ok {
			return fmt.Errorf("webhook %d is no object", i)
		}
		path, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("webhook %d has no path", i)
		}
		if err := unstructured.SetNestedMap(webhook, map[string]any{"url": "https://" + address + path}, "clientConfig"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}
