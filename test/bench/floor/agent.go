package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// trust returns a client that trusts Rancher's CA.
func (i *importer) trust(ctx context.Context) (*http.Client, error) {
	settings := &unstructured.UnstructuredList{}
	settings.SetGroupVersionKind(rancherObject("SettingList").GroupVersionKind())
	if err := i.client.List(ctx, settings); err != nil {
		return nil, fmt.Errorf("reading Rancher's settings: %w", err)
	}
	pool := x509.NewCertPool()
	for n := range settings.Items {
		if settings.Items[n].GetName() == "cacerts" {
			value, _, _ := unstructured.NestedString(settings.Items[n].Object, "value")
			pool.AppendCertsFromPEM([]byte(value))
		}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}, nil
}

// installAgent applies the manifest of a Rancher cluster in its workload cluster.
func (i *importer) installAgent(ctx context.Context, rancher *http.Client, r registration) error {
	owner, token := r.owner, r.token
	kubeconfig, credentials := &corev1.Secret{}, &corev1.Secret{}
	secret, _, _ := unstructured.NestedString(token.Object, "status", "tokenSecretName")
	if err := errors.Join(
		i.client.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name + "-kubeconfig"}, kubeconfig),
		i.client.Get(ctx, client.ObjectKey{Namespace: token.GetNamespace(), Name: secret}, credentials),
	); err != nil {
		return fmt.Errorf("reading Secrets: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data["value"])
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent = i.config.UserAgent
	workload, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("opening the workload cluster: %w", err)
	}
	defer workload.CloseIdleConnections()
	url, _, _ := unstructured.NestedString(token.Object, "status", "manifestUrl")
	manifest, err := send(ctx, rancher, http.MethodGet, strings.ReplaceAll(url, "{token}", string(credentials.Data["token"])), nil)
	if err != nil {
		return fmt.Errorf("downloading the manifest: %w", err)
	}
	for document := range bytes.SplitSeq(manifest, []byte("\n---")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, object); err != nil {
			return fmt.Errorf("reading the manifest: %w", err)
		}
		if object.GetKind() == "" {
			continue
		}
		if _, err := send(ctx, workload, http.MethodPatch, config.Host+pathOf(object)+"?fieldManager=floor&force=true", document); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// pathOf is where an object is. The manifest has no kinds of which this is not true.
func pathOf(object *unstructured.Unstructured) string {
	kind := object.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	base := path.Join("/apis", kind.Group, kind.Version)
	if kind.Group == "" {
		base = path.Join("/api", kind.Version)
	}
	if object.GetNamespace() != "" {
		base = path.Join(base, "namespaces", object.GetNamespace())
	}
	return path.Join(base, resource.Resource, object.GetName())
}

// send makes a request and returns the body of the answer.
func send(ctx context.Context, by *http.Client, method, url string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", string(types.ApplyYAMLPatchType))
	}
	response, err := by.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = errors.New(response.Status)
	}
	return answer, err
}
