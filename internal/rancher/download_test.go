package rancher

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/archelon-io/archelon/internal/outcome"
)

// rancherServer is an HTTPS server that counts its connections.
type rancherServer struct {
	*httptest.Server
	ca     *authority
	opened atomic.Int64
	closed chan struct{}
}

func newRancherServer(t *testing.T, handler http.HandlerFunc, protocols ...string) *rancherServer {
	t.Helper()
	ca := newAuthority(t)
	return newRancherServerWith(t, ca, ca.issue(t, "127.0.0.1", time.Now().Add(time.Hour)), handler, protocols...)
}

func newRancherServerWith(t *testing.T, ca *authority, certificate tls.Certificate, handler http.HandlerFunc, protocols ...string) *rancherServer {
	t.Helper()
	s := &rancherServer{Server: httptest.NewUnstartedServer(handler), ca: ca, closed: make(chan struct{}, 100)}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.EnableHTTP2 = slices.Contains(protocols, "HTTP/2.0")
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.opened.Add(1)
		case http.StateClosed:
			s.closed <- struct{}{}
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *rancherServer) trust(t *testing.T) Trust {
	t.Helper()
	return mustTrust(t, "strict", s.ca.pem)
}

// registration is one whose manifest URL leads to a server.
func registrationAt(t *testing.T, base string) Registration {
	t.Helper()
	r, err := newRegistration(testCluster, base+"/v3/import/"+testToken+"_"+testCluster+".yaml", []string{testToken})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newTestDownloader returns one that is patient, unless the test wants to see a timeout.
func newTestDownloader(t *testing.T, o DownloaderOptions) *Downloader {
	t.Helper()
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	if o.Proxy == nil {
		o.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	d, err := NewDownloader(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func answer(status int, contentType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

func TestDownload(t *testing.T) {
	var path, agent atomic.Value
	server := newRancherServer(t, func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.Path)
		agent.Store(r.UserAgent())
		answer(http.StatusOK, "text/plain", agentManifest(t))(w, r)
	})
	manifest, err := newTestDownloader(t, DownloaderOptions{}).Manifest(t.Context(), registrationAt(t, server.URL), server.trust(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(manifest.Objects()); got != 12 {
		t.Errorf("want 12 objects, got %d", got)
	}
	if got := path.Load(); got != "/v3/import/"+testToken+"_c-abcde.yaml" {
		t.Errorf("asked for %s", got)
	}
	if agent.Load() != "archelon" {
		t.Errorf("user agent %s", agent.Load())
	}
}

// A manifest comes for each cluster, and the log tells of a kind in it that is new.
func TestDownloadLogsANewKindOnce(t *testing.T) {
	var kinds atomic.Int64
	server := newRancherServer(t, func(w http.ResponseWriter, r *http.Request) {
		body := agentManifest(t)
		for i := range kinds.Load() {
			body = fmt.Appendf(body, "\n---\napiVersion: apps/v%d\nkind: StatefulSet\nmetadata: {name: a%d, namespace: cattle-system}\n", i+2, i)
		}
		answer(http.StatusOK, "text/plain", body)(w, r)
	})
	var logged []string
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	d := newTestDownloader(t, DownloaderOptions{})
	for _, step := range []struct {
		reason      string
		kinds, want int
	}{
		{"nothing is new", 0, 0},
		{"one is", 1, 1},
		{"and is so no more", 1, 1},
		{"another one is", 2, 2},
		{"whoever makes them up does not fill the log", 150, maxLogged},
	} {
		kinds.Store(int64(step.kinds))
		if _, err := d.Manifest(ctx, registrationAt(t, server.URL), server.trust(t)); err != nil {
			t.Fatal(err)
		}
		if len(logged) != step.want {
			t.Errorf("%s: the log has %d lines, want %d: %q", step.reason, len(logged), step.want, logged)
		}
	}
	if !strings.Contains(logged[0], "apps/v2, Kind=StatefulSet") {
		t.Errorf("the log does not say which: %s", logged[0])
	}
}

func TestDownloadRefuses(t *testing.T) {
	bomb := gzipped(t, bytes.Repeat([]byte("a: b\n"), 1<<18))
	other := newRancherServer(t, answer(http.StatusOK, "text/plain", nil))
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + testToken + "}\n"
	cases := map[string]struct {
		reason  string
		handler http.HandlerFunc
		want    string
		says    string
	}{
		"Unknown":      {reason: "this is how Rancher refuses a token", handler: answer(http.StatusBadRequest, "text/plain", []byte("cluster not found or invalid token")), want: "RegistrationRefused", says: "does not know cluster c-abcde or its registration token"},
		"NotFound":     {reason: "an ingress leads elsewhere", handler: answer(http.StatusNotFound, "text/plain", []byte("404")), want: "ManifestNotFound", says: "404"},
		"ServerError":  {reason: "Rancher fails", handler: answer(http.StatusInternalServerError, "text/plain", []byte(testToken)), want: "RancherServerError", says: "500"},
		"BadGateway":   {reason: "an ingress has no Rancher", handler: answer(http.StatusBadGateway, "text/html", []byte("<html>")), want: "RancherServerError", says: "502"},
		"TooMany":      {reason: "an ingress limits the rate", handler: answer(http.StatusTooManyRequests, "text/plain", nil), want: "RancherServerError", says: "429"},
		"Unauthorized": {reason: "Rancher never asks for a login here", handler: answer(http.StatusUnauthorized, "text/plain", nil), want: "ManifestUnexpectedStatus", says: "401"},
		"NoContent":    {reason: "nothing is not a manifest", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, want: "ManifestUnexpectedStatus", says: "204"},
		"NotModified":  {reason: "there is nothing to compare with", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, want: "ManifestUnexpectedStatus", says: "304"},
		"HTML":         {reason: "a login page with status 200", handler: answer(http.StatusOK, "text/html; charset=utf-8", []byte("Log in with "+testToken)), want: "ManifestIsHTML", says: "HTML"},
		"Empty":        {reason: "an empty body with status 200", handler: answer(http.StatusOK, "text/plain", nil), want: "ManifestEmpty", says: "0 bytes"},
		"Text":         {reason: "older Ranchers' errors with status 200", handler: answer(http.StatusOK, "text/plain", []byte(testToken)), want: "ManifestNotYAML", says: "54 bytes"},
		"TokenAsName":  {reason: "a message never quotes the token back", handler: answer(http.StatusOK, "text/plain", []byte(role+"---\n"+role)), want: "ManifestForeignObject", says: "ClusterRole [redacted] twice"},
		"TooLarge":     {reason: "the announced size is over the limit", handler: answer(http.StatusOK, "text/plain", bytes.Repeat([]byte("#"), 1<<16+1)), want: "ManifestTooLarge", says: "65536 bytes"},
		"Endless":      {reason: "the size is not announced", handler: endless, want: "ManifestTooLarge", says: "65536 bytes"},
		"GzipBomb": {
			reason: "the limit counts what a body expands to", want: "ManifestTooLarge", says: "65536 bytes",
			handler: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				answer(http.StatusOK, "text/plain", bomb)(w, r)
			},
		},
		"Truncated": {
			reason: "the connection ends before the announced size", want: "ManifestTruncated",
			handler: hijacked("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5000\r\n\r\napiVersion: v1\n"),
		},
		"NoHTTP":          {reason: "the other side does not speak HTTP", handler: hijacked("HELO " + testToken + "\r\n\r\n"), want: "RancherUnreachable", says: "connection to Rancher broke"},
		"HugeHeader":      {reason: "headers are bounded as well", handler: hijacked("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), want: "RancherUnreachable"},
		"OtherHost":       {reason: "the URL holds a token", handler: redirect("https://elsewhere.example.com/" + testToken), want: "ManifestRedirected", says: "another host"},
		"OtherPort":       {reason: "another port is another server", handler: redirect(other.URL + "/" + testToken), want: "ManifestRedirected"},
		"PlainHTTP":       {reason: "a token must not cross the network in the clear", handler: func(w http.ResponseWriter, r *http.Request) { redirect("http://"+r.Host+"/"+testToken)(w, r) }, want: "ManifestRedirected"},
		"Loop":            {reason: "redirects end", handler: func(w http.ResponseWriter, r *http.Request) { redirect(r.URL.Path+"x")(w, r) }, want: "ManifestRedirected", says: "more than 3 times"},
		"BrokenRedirect":  {reason: "net/http quotes what it cannot parse", handler: redirect("https://[" + testToken), want: "RancherUnreachable"},
		"MissingRedirect": {reason: "a redirect has a target", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) }, want: "ManifestUnexpectedStatus", says: "302"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := newRancherServer(t, tc.handler)
			d := newTestDownloader(t, DownloaderOptions{MaxBytes: 1 << 16})
			_, err := d.Manifest(t.Context(), registrationAt(t, server.URL), server.trust(t))
			wantProblem(t, err, outcome.KindFail, tc.want)
			wantNoSecret(t, err)
			if err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("want %q in: %v", tc.says, err)
			}
			if t.Failed() {
				t.Log(tc.reason)
			}
		})
	}
}

// endless writes until the client has enough.
func endless(w http.ResponseWriter, _ *http.Request) {
	chunk := bytes.Repeat([]byte("# more\n"), 1000)
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func redirect(location string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
	}
}

// hijacked answers with raw bytes and closes the connection.
func hijacked(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(connection, raw)
		_ = connection.Close()
	}
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDownloadFollowsRedirectsOnTheSameHost(t *testing.T) {
	var referer atomic.Value
	server := newRancherServer(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v3/") {
			redirect("/rancher"+r.URL.Path)(w, r)
			return
		}
		referer.Store(r.Referer())
		answer(http.StatusOK, "text/plain", agentManifest(t))(w, r)
	})
	if _, err := newTestDownloader(t, DownloaderOptions{}).Manifest(t.Context(), registrationAt(t, server.URL), server.trust(t)); err != nil {
		t.Fatal(err)
	}
	if got := referer.Load(); got != "" {
		t.Errorf("the token left in a Referer: %s", got)
	}
}

// neverAnswer waits until the client has gone, and resets the stream then: a handler that returns answers with status
// 200, which a client that is just giving up may still take.
func neverAnswer(_ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

func TestDownloadIsBoundedInTime(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	blackHole := newRancherServer(t, neverAnswer)
	stalled := newRancherServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "apiVersion: v1\n")
		_ = http.NewResponseController(w).Flush()
		neverAnswer(w, r)
	})
	for name, base := range map[string]string{
		"NoHandshake": "https://" + silent.Addr().String(), "NoAnswer": blackHole.URL, "NoEnd": stalled.URL,
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestDownloader(t, DownloaderOptions{Timeout: 100 * time.Millisecond, InsecureSkipTLSVerify: true})
			_, err := d.Manifest(t.Context(), registrationAt(t, base), Trust{})
			wantProblem(t, err, outcome.KindFail, "RancherTimeout")
			wantNoSecret(t, err)
		})
	}
	t.Run("CanceledByCaller", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := newTestDownloader(t, DownloaderOptions{}).Manifest(ctx, registrationAt(t, blackHole.URL), blackHole.trust(t))
		var problem *outcome.Problem
		if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &problem) {
			t.Errorf("want the error of the context, got %v", err)
		}
		wantNoSecret(t, fmt.Sprint(err))
	})
}

func TestDownloadTrust(t *testing.T) {
	ca := newAuthority(t)
	ok := answer(http.StatusOK, "text/plain", agentManifest(t))
	valid := newRancherServerWith(t, ca, ca.issue(t, "127.0.0.1", time.Now().Add(time.Hour)), ok)
	expired := newRancherServerWith(t, ca, ca.issue(t, "127.0.0.1", time.Now().Add(-time.Hour)), ok)
	otherHost := newRancherServerWith(t, ca, ca.issue(t, "rancher.example.com", time.Now().Add(time.Hour)), ok)
	plain := httptest.NewServer(ok)
	t.Cleanup(plain.Close)

	cases := map[string]struct {
		reason   string
		base     string
		trust    Trust
		insecure bool
		says     string
	}{
		"Trusted":   {reason: "cacerts vouches for Rancher", base: valid.URL, trust: mustTrust(t, "strict", ca.pem)},
		"Insecure":  {reason: "a developer asked for it", base: expired.URL, insecure: true},
		"OtherCA":   {reason: "strict trusts nothing else", base: valid.URL, trust: mustTrust(t, "strict", newAuthority(t).pem), says: "cacerts"},
		"System":    {reason: "a private CA is not in the system's store", base: valid.URL, trust: mustTrust(t, "system-store", ca.pem), says: "system-store"},
		"Expired":   {reason: "an expired certificate proves nothing", base: expired.URL, trust: mustTrust(t, "strict", ca.pem), says: "expired"},
		"OtherHost": {reason: "a certificate for another host neither", base: otherHost.URL, trust: mustTrust(t, "strict", ca.pem), says: "not for that host"},
		"NoTLS":     {reason: "a plain server on an https URL", base: "https://" + plain.Listener.Addr().String(), trust: mustTrust(t, "strict", ca.pem), says: "No TLS connection"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := newTestDownloader(t, DownloaderOptions{InsecureSkipTLSVerify: tc.insecure})
			_, err := d.Manifest(t.Context(), registrationAt(t, tc.base), tc.trust)
			if tc.says == "" {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			wantProblem(t, err, outcome.KindFail, "RancherTLSNotTrusted")
			wantNoSecret(t, err)
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: want %q in: %v", tc.reason, tc.says, err)
			}
		})
	}
}

func TestDownloadUnreachable(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, base := range map[string]string{
		"Refused":     "https://" + gone.Listener.Addr().String(),
		"UnknownHost": "https://rancher.invalid",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newTestDownloader(t, DownloaderOptions{}).Manifest(t.Context(), registrationAt(t, base), Trust{})
			wantProblem(t, err, outcome.KindFail, "RancherUnreachable")
			wantNoSecret(t, err)
		})
	}
}

func TestNewDownloaderRefusesNegativeLimits(t *testing.T) {
	for _, o := range []DownloaderOptions{{Timeout: -1}, {MaxBytes: -1}} {
		if _, err := NewDownloader(o); err == nil {
			t.Errorf("accepted %+v", o)
		}
	}
}
