package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/yaml"
)

const (
	contentType = "Content-Type"
	contentJSON = "application/json"
	// applyTries bounds how often an apply may lose a race against another writer.
	applyTries = 5
)

// serve answers a request, itself or by the API server.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	b, err := g.backend(r.Context())
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	recorded := &recorder{ResponseWriter: w, code: http.StatusOK}
	request := Request{UserAgent: r.UserAgent(), Method: r.Method, Path: r.URL.Path}
	known := false
	if certificates := r.TLS.PeerCertificates; len(certificates) > 0 {
		request.Certificate = certificates[0].SerialNumber.String()
		g.mu.Lock()
		known = !g.refused[request.Certificate] && b.ca.knows(certificates[0])
		g.mu.Unlock()
	}
	defer func() { request.Code = recorded.code; g.record(request) }()
	if !known {
		answer(recorded, http.StatusUnauthorized, statusOf(apierrors.NewUnauthorized("Unauthorized")))
		return
	}
	g.route(b, recorded, r)
}

func (g *Gateway) route(b *backend, w http.ResponseWriter, r *http.Request) {
	kind, _, _ := strings.Cut(r.Header.Get(contentType), ";")
	var err error
	switch {
	case r.URL.Path == "/version", strings.HasPrefix(r.URL.Path, "/apis/batch/v1/"):
		g.memory.ServeHTTP(w, r)
	case r.Method == http.MethodPatch && kind == string(types.ApplyYAMLPatchType):
		err = b.apply(w, r)
	case r.Method == http.MethodPost && kind == contentJSON:
		err = b.create(w, r)
	case r.Method == http.MethodDelete && isCollection(r.URL.Path):
		err = b.deleteCollection(w, r)
	case r.Method == http.MethodDelete && path.Dir(r.URL.Path) == "/api/v1/namespaces":
		err = b.deleteNamespace(w, r)
	default:
		b.proxy.ServeHTTP(w, r)
	}
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		answer(w, int(status.Status().Code), statusOf(status))
	case err != nil: // the API server went away
		panic(http.ErrAbortHandler)
	}
}

// isCollection reports whether a path is that of all objects of a kind.
func isCollection(p string) bool {
	parts := strings.Split(strings.Trim(p, "/"), "/")
	if len(parts) > 0 && parts[0] == "apis" {
		parts = parts[1:]
	}
	parts = parts[min(2, len(parts)):]
	return len(parts) == 1 || len(parts) == 3 && parts[0] == "namespaces"
}

// apply creates the object or merges it into the one that there is.
func (b *backend) apply(w http.ResponseWriter, r *http.Request) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	object, err := yaml.YAMLToJSON(raw)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	for range applyTries {
		_, err = b.ask(r.Context(), http.MethodGet, r.URL.Path, "", nil)
		method, target, kind, code := http.MethodPatch, r.URL.Path, string(types.MergePatchType), http.StatusOK
		switch {
		case apierrors.IsNotFound(err):
			method, target, kind, code = http.MethodPost, path.Dir(r.URL.Path), contentJSON, http.StatusCreated
		case err != nil:
			return err
		}
		var body []byte
		body, err = b.ask(r.Context(), method, target, kind, object)
		if err == nil {
			answerRaw(w, code, body)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return err
}

// create gives the object a name if it wants one generated, and does without its owners.
func (b *backend) create(w http.ResponseWriter, r *http.Request) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if prefix := object.GetGenerateName(); prefix != "" && object.GetName() == "" {
		object.SetName(prefix + rand.String(5))
	}
	// The API server looks for owners in the namespace of the object, and so refuses those that are in
	// none. It collects no garbage.
	object.SetOwnerReferences(nil)
	if raw, err = json.Marshal(object.Object); err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	b.proxy.ServeHTTP(w, r)
	return nil
}

// deleteCollection deletes the objects of a kind that the selector matches, one after the other.
func (b *backend) deleteCollection(w http.ResponseWriter, r *http.Request) error {
	if err := b.deleteAll(r.Context(), r.URL.Path, r.URL.Query().Get("labelSelector")); err != nil {
		return err
	}
	answer(w, http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess})
	return nil
}

// deleteNamespace deletes what Rancher and its agent have in a namespace, and then the namespace.
func (b *backend) deleteNamespace(w http.ResponseWriter, r *http.Request) error {
	name := path.Base(r.URL.Path)
	for _, resource := range []string{
		"/apis/apps/v1/%s/deployments", "/apis/apps/v1/%s/daemonsets", "/api/v1/%s/services", "/api/v1/%s/secrets",
		"/api/v1/%s/serviceaccounts", "/api/v1/%s/configmaps", "/apis/policy/v1/%s/poddisruptionbudgets",
	} {
		if err := b.deleteAll(r.Context(), fmt.Sprintf(resource, "namespaces/"+name), ""); err != nil {
			return err
		}
	}
	if _, err := b.ask(r.Context(), http.MethodDelete, r.URL.Path, "", nil); err != nil {
		return err
	}
	answer(w, http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess})
	return nil
}

func (b *backend) deleteAll(ctx context.Context, collection, selector string) error {
	target := collection
	if selector != "" {
		target += "?" + (url.Values{"labelSelector": {selector}}).Encode()
	}
	raw, err := b.ask(ctx, http.MethodGet, target, "", nil)
	if err != nil {
		return err
	}
	list := &metav1.PartialObjectMetadataList{}
	if err := json.Unmarshal(raw, list); err != nil {
		return fmt.Errorf("reading %s: %w", collection, err)
	}
	for i := range list.Items {
		object := collection + "/" + list.Items[i].Name
		if _, err := b.ask(ctx, http.MethodDelete, object, "", nil); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// ask sends a request to the API server. What it refuses is an error with its status.
func (b *backend) ask(ctx context.Context, method, target, kind string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "https://"+b.address+target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if kind != "" {
		request.Header.Set(contentType, kind)
	}
	response, err := b.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, apierrors.NewGenericServerResponse(response.StatusCode, method, schema.GroupResource{}, path.Base(target), string(raw), 0, false)
	}
	return raw, nil
}
