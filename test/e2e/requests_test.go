package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// reaction is how long a phase may take to go on when its event has come. It is shorter than every timer that
// would wake it otherwise (5 s, 30 s, 5 min, the resync), and long enough for a loaded machine.
const reaction = 4 * time.Second

// perObject drops what is not caused by a single import: watches, the lists before them, discovery and probes.
func perObject(events []auditv1.Event) []auditv1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e auditv1.Event) bool {
		return e.Verb == "watch" || e.Verb == "list" || e.ObjectRef == nil || e.ObjectRef.Resource == "leases"
	})
}

func describe(events []auditv1.Event) string {
	var lines []string
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%s %s %d", e.Verb, e.RequestURI, e.ResponseStatus.Code))
	}
	return strings.Join(lines, "\n")
}

// scrape reads the manager's metrics with a bearer token.
func (f *fixture) scrape(ctx context.Context, token string) (int, string) {
	GinkgoHelper()
	code, body, err := scrape(ctx, f.manager.Metrics, token)
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
