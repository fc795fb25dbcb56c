package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/archelon-io/archelon/internal/scheme"
)

func newMetrics(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return m, registry
}

// values returns the value of each series of a registry, by its name and the values of its labels.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			name := family.GetName()
			for _, label := range series.GetLabel() {
				name += " " + label.GetValue()
			}
			found[name] = series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return found
}

// Without a certificate the webhook is not ready, and that is all: nothing waits for it. With one, it serves it, and the next one when the files change.
func TestCertificateInDirectory(t *testing.T) {
	dir, address, now := t.TempDir(), freeAddress(t), time.Now()
	metrics, registry := newMetrics(t)
	server, err := New(Options{BindAddress: address, CertDir: dir, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	server.Handle("/allow", &admission.Webhook{Handler: admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
		return admission.ValidationResponse(r.Name == "good", "")
	})})
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- server.Start(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	}()

	probe := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
	if err := server.Ready(probe); err == nil {
		t.Error("it is ready without a certificate")
	}
	ca, err := newAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{now, now.Add(time.Minute)} {
		writePair(t, ca, dir, at)
		end := at.Add(servingLife).Unix()
		eventually(t, func() bool { return served(t.Context(), address, ca) == end })
		if err := server.Ready(probe); err != nil {
			t.Errorf("it is not ready: %v", err)
		}
		if got := values(t, registry)["archelon_webhook_certificate_expiry_timestamp_seconds"]; int64(got) != end {
			t.Errorf("the metric says %f, want %d", got, end)
		}
	}
	for _, name := range []string{"good", "bad", "bad"} {
		review(t, address, ca, name)
	}
	got := values(t, registry)
	if good, bad := got["archelon_webhook_requests_total true /allow"], got["archelon_webhook_requests_total false /allow"]; good != 1 || bad != 2 {
		t.Errorf("counted %v, want 1 allowed and 2 refused", got)
	}
}

func TestReadiness(t *testing.T) {
	w := newWorld(t)
	w.step()
	clock := clocktesting.NewFakePassiveClock(w.clock.Now())
	metrics, registry := newMetrics(t)
	s := &serving{clock: clock, metrics: metrics}
	if got := values(t, registry); len(got) > 0 {
		t.Errorf("there are series before there is a certificate: %v", got)
	}
	if _, err := s.get(nil); err == nil {
		t.Error("there is no certificate, and no error")
	}
	s.offer(servable(w.secret, testNames, clock.Now()))
	if err := s.ready(nil); err != nil {
		t.Error(err)
	}
	clock.SetTime(clock.Now().Add(91 * day))
	if err := s.ready(nil); err == nil {
		t.Error("it is ready with an expired certificate")
	}
}

func TestNewRefuses(t *testing.T) {
	metrics, _ := newMetrics(t)
	for name, opts := range map[string]Options{
		"NoMetrics": {BindAddress: ":1", CertDir: "x"},
		"NoPort":    {BindAddress: "9443", CertDir: "x", Metrics: metrics},
		"BadPort":   {BindAddress: ":http", CertDir: "x", Metrics: metrics},
	} {
		if _, err := New(opts); err == nil {
			t.Errorf("%s: there is no error", name)
		}
	}
}

// An address in use is a mistake of the installation, which has to be seen at the start.
func TestAddressInUse(t *testing.T) {
	metrics, _ := newMetrics(t)
	taken := httptest.NewServer(nil)
	defer taken.Close()
	server, err := New(Options{BindAddress: strings.TrimPrefix(taken.URL, "http://"), CertDir: t.TempDir(), Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err == nil {
		t.Error("there is no error")
	}
}

// Without a Secret that may be watched the server runs all the same, and ends when it is told to.
func TestUnreachableAPIServer(t *testing.T) {
	metrics, _ := newMetrics(t)
	s, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	server, err := New(Options{
		BindAddress: freeAddress(t), Secret: client.ObjectKey{Namespace: "system", Name: "secret"}, Service: "hook", Configuration: "hooks",
		Config: &rest.Config{Host: "https://" + freeAddress(t)}, Scheme: s, Mapper: scheme.Mapper(), Metrics: metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	eventually(t, func() bool {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.opts.BindAddress)
		if err != nil {
			return false
		}
		return connection.Close() == nil
	})
	if err := server.Ready(nil); err == nil {
		t.Error("it is ready without a certificate")
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func review(t *testing.T, address string, ca *authority, name string) {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &admissionv1.AdmissionRequest{UID: "1", Name: name},
	})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/allow", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: trusting(ca), DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("got status %d", response.StatusCode)
	}
}

// served returns when the certificate ends that is served, zero if none that the CA signed.
func served(ctx context.Context, address string, ca *authority) int64 {
	connection, err := (&tls.Dialer{Config: trusting(ca)}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0
	}
	defer func() { _ = connection.Close() }()
	encrypted, ok := connection.(*tls.Conn)
	if !ok {
		return 0
	}
	return encrypted.ConnectionState().PeerCertificates[0].NotAfter.Unix()
}

func trusting(ca *authority) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(ca.certificate)
	return &tls.Config{RootCAs: pool, ServerName: "hook.system.svc", MinVersion: tls.VersionTLS12}
}

// writePair replaces both files at once, in the way of the kubelet: they are links into a directory that is itself a link, which is swapped.
func writePair(t *testing.T, ca *authority, dir string, now time.Time) {
	t.Helper()
	certificate, key, err := ca.issue(testNames, now)
	if err != nil {
		t.Fatal(err)
	}
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	fresh := t.TempDir()
	steps := []error{
		os.WriteFile(filepath.Join(fresh, tlsCert), certificate, 0o600),
		os.WriteFile(filepath.Join(fresh, tlsKey), key, 0o600),
		os.Symlink(fresh, filepath.Join(dir, "..new")),
		os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")),
	}
	if old == "" {
		steps = append(steps, os.Symlink("..data/"+tlsKey, filepath.Join(dir, tlsKey)), os.Symlink("..data/"+tlsCert, filepath.Join(dir, tlsCert)))
	} else {
		steps = append(steps, os.RemoveAll(old))
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatal("it did not come true within 30 s")
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
