package rancher_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answer is what an HTTP request brought.
type answer struct {
	Status      int
	ContentType string
	Body        string
}

// fetch sends one request that trusts the given CA only.
func fetch(ctx context.Context, ca []byte, url string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{}, err
	}
	return exchange(ca, request)
}

// exchange sends a request that trusts the given CA only.
func exchange(ca []byte, request *http.Request) (answer, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	c := http.Client{
		Transport:     transport,
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := c.Do(request)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	err = errors.Join(err, response.Body.Close())
	return answer{response.StatusCode, response.Header.Get("Content-Type"), string(body)}, err
}

// documents parses a manifest; empty documents are left out.
func documents(manifest string) []*unstructured.Unstructured {
	GinkgoHelper()
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return out
		}
		Expect(err).NotTo(HaveOccurred())
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}

// apply creates what is missing of a manifest in the workload cluster and sees to it that the
// agent is removed after the spec.
func apply(ctx context.Context, manifest string, keep func(*unstructured.Unstructured) bool) {
	GinkgoHelper()
	DeferCleanup(removeAgent)
	for _, u := range documents(manifest) {
		if keep != nil && !keep(u) {
			continue
		}
		if u.GetKind() == "ClusterRoleBinding" {
			u.SetNamespace("") // the stray one
		}
		// The namespace may be terminating after an earlier spec, or have gone since. Its controller waits for five seconds,
		// and for longer if not all was gone then.
		Eventually(func(ctx context.Context) error {
			err := workload.Create(ctx, u.DeepCopy())
			if apierrors.IsAlreadyExists(err) {
				if u.GetKind() == "Namespace" {
					live, err := get(ctx, workload, u.GroupVersionKind(), "", u.GetName())
					if err != nil || !live.GetDeletionTimestamp().IsZero() {
						return apierrors.NewConflict(schema.GroupResource{}, u.GetName(), nil)
					}
				}
				return nil
			}
			return err
		}).WithContext(ctx).Should(Succeed(), u.GetKind())
	}
}

// applyAgain applies a manifest over what is there, as an importer does: what only Rancher set stays.
func applyAgain(ctx context.Context, manifest string) {
	GinkgoHelper()
	for _, u := range documents(manifest) {
		if u.GetKind() == "ClusterRoleBinding" {
			u.SetNamespace("") // the stray one
		}
		Expect(workload.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("importer"), client.ForceOwnership)).To(Succeed(), u.GetKind())
	}
}

func isKind(kind string) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool { return u.GetKind() == kind }
}

func not(keep func(*unstructured.Unstructured) bool) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool { return !keep(u) }
}
