package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// scrape reads the manager's metrics with a bearer token.
func (f *fixture) scrape(ctx context.Context, token string) (int, string) {
	GinkgoHelper()
	code, body, err := scrape(ctx, f.Manager.Metrics, token)
	Expect(err).NotTo(HaveOccurred())
	return code, body
}

// scrape reads metrics under a URL with a bearer token.
func scrape(ctx context.Context, url, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the manager signs its own
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
