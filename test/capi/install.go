package capi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	sigsyaml "sigs.k8s.io/yaml"
)

// manifest is what a manager needs in the management cluster. The rest of its manifest only makes sense for a Pod.
type manifest struct {
	crds     []*apiextensionsv1.CustomResourceDefinition
	webhooks []client.Object
}

// install applies a manifest, with webhooks at the given URL and with the given CA, and
// waits until its CRDs are served.
func install(ctx context.Context, config *rest.Config, path, url string, ca []byte) error {
	m, err := readManifest(path, url, ca)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: m.crds}); err != nil {
		return fmt.Errorf("installing the CRDs of %s: %w", path, err)
	}
	scheme := runtime.NewScheme()
	if err := admissionregistrationv1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	for _, webhook := range m.webhooks {
		if err := c.Create(ctx, webhook); err != nil {
			return fmt.Errorf("creating webhooks %s: %w", webhook.GetName(), err)
		}
	}
	return nil
}

func readManifest(path, url string, ca []byte) (*manifest, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	m := &manifest{}
	documents := yaml.NewYAMLReader(bufio.NewReader(file))
	for {
		raw, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, err
		}
		if err := m.add(raw, url, ca); err != nil {
			return nil, err
		}
	}
}

// add takes one object over.
func (m *manifest) add(raw []byte, url string, ca []byte) error {
	var kind metav1.TypeMeta
	if err := sigsyaml.Unmarshal(raw, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "CustomResourceDefinition":
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := sigsyaml.Unmarshal(raw, crd); err != nil {
			return err
		}
		if c := crd.Spec.Conversion; c != nil && c.Webhook != nil {
			c.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{
				URL: new(url + ptr.Deref(c.Webhook.ClientConfig.Service.Path, "")), CABundle: ca,
			}
		}
		m.crds = append(m.crds, crd)
	case "MutatingWebhookConfiguration":
		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := sigsyaml.Unmarshal(raw, config); err != nil {
			return err
		}
		for i := range config.Webhooks {
			repoint(&config.Webhooks[i].ClientConfig, url, ca)
		}
		m.webhooks = append(m.webhooks, config)
	case "ValidatingWebhookConfiguration":
		config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := sigsyaml.Unmarshal(raw, config); err != nil {
			return err
		}
		for i := range config.Webhooks {
			repoint(&config.Webhooks[i].ClientConfig, url, ca)
		}
		m.webhooks = append(m.webhooks, config)
	}
	return nil
}

// repoint names a URL in the place of a Service.
func repoint(config *admissionregistrationv1.WebhookClientConfig, url string, ca []byte) {
	*config = admissionregistrationv1.WebhookClientConfig{URL: new(url + ptr.Deref(config.Service.Path, "")), CABundle: ca}
}
