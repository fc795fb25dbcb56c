package workload

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// TestMetricsDoNotGrow asks servers under several names that answer with codes of their choice, and
// looks at what client-go counts.
func TestMetricsDoNotGrow(t *testing.T) {
	codes := []int{200, 226, 299, 404, 418, 419, 500, 599, 600, 999}
	next := make(chan int, len(codes))
	server := newAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		cut(fmt.Sprintf("HTTP/1.1 %d \r\nContent-Length: 0\r\n\r\n", <-next))(w, r)
	})
	for _, code := range codes {
		next <- code
		c := connect(t, Options{}, written(t, server.URL, server.certificate.certPEM))
		_ = getDeployment(t.Context(), c)
	}
	// The name of a host is the tenant's choice; that it does not exist changes nothing.
	for i := range 5 {
		c := connect(t, Options{}, written(t, fmt.Sprintf("https://tenant-%d.invalid/path", i), nil))
		_ = getDeployment(t.Context(), c)
	}

	hosts, seen := counted(t, "host"), counted(t, "code")
	if got := slices.Sorted(maps.Keys(hosts)); !slices.Equal(got, []string{"workload"}) {
		t.Errorf("want one host for all workload clusters, got %q", got)
	}
	for _, unknown := range []string{"299", "419", "599", "600", "999"} {
		if seen[unknown] {
			t.Errorf("there is a series for code %s", unknown)
		}
	}
	if !seen["418"] || !seen["500"] {
		t.Errorf("known codes are not counted: %v", seen)
	}
}

// counted returns the values of a label of the requests that client-go has counted.
func counted(t *testing.T, label string) map[string]bool {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]bool{}
	for _, family := range families {
		if family.GetName() != "rest_client_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if pair.GetName() == label {
					values[pair.GetValue()] = true
				}
			}
		}
	}
	return values
}

// TestRequestsReachTheirHost asks a server what it is asked for.
func TestRequestsReachTheirHost(t *testing.T) {
	asked := make(chan string, 10)
	server := newAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host + r.URL.Path
		apiError(http.StatusNotFound, "{}")(w, r)
	})
	c := connect(t, Options{}, written(t, server.URL+"/k8s/clusters/c-abcde", server.certificate.certPEM))
	_ = getDeployment(t.Context(), c)
	if got, want := <-asked, server.Listener.Addr().String()+"/k8s/clusters/c-abcde/apis/apps/v1/namespaces/a/deployments/b"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}
