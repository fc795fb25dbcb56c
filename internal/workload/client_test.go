package workload

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

func apiError(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// TestStrangers asks servers that answer badly; whatever they say, no message repeats it.
func TestStrangers(t *testing.T) {
	status := func(code int, reason, message string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","code":` + strconv.Itoa(code) + `,"reason":"` + reason + `","message":"` + message + `"}`
	}
	var leaked atomic.Bool
	other := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked.Store(r.Header.Get("Authorization") != "")
	}))
	t.Cleanup(other.Close)

	cases := map[string]struct {
		reason  string
		handler http.HandlerFunc
		want    string
		says    string
	}{
		"Unauthorized": {reason: "the token is wrong", handler: apiError(401, status(401, "Unauthorized", "s3cret")), want: "WorkloadUnauthorized", says: "Renew the kubeconfig"},
		"BareProxy401": {reason: "a proxy says so, without a Status", handler: apiError(401, "s3cret"), want: "WorkloadUnauthorized"},
		"Forbidden":    {reason: "RBAC says so", handler: apiError(403, status(403, "Forbidden", "User x cannot list resource s3cret")), want: "WorkloadForbidden", says: "cluster-admin"},
		"Webhook":      {reason: "a webhook says so", handler: apiError(403, status(403, "Forbidden", "admission webhook x denied the request: s3cret cannot be")), want: "WorkloadRejected", says: "policies"},
		"NotFound":     {reason: "this is no Kubernetes API", handler: apiError(404, "s3cret"), want: "WorkloadRejected", says: "404"},
		"Conflict":     {reason: "somebody else writes", handler: apiError(409, status(409, "Conflict", "s3cret")), want: "WorkloadConflict", says: "tried again"},
		"ServerError":  {reason: "the API server fails", handler: apiError(500, status(500, "InternalError", "s3cret")), want: "WorkloadServerError", says: "500"},
		"NoCode":       {reason: "a Status may lack all that matters", handler: apiError(500, `{"kind":"Status","apiVersion":"v1","status":"Failure"}`), want: "WorkloadServerError", says: "unknown HTTP status"},
		"HTML":         {reason: "a web page with status 200", handler: apiError(200, "<html>s3cret"), want: "WorkloadServerError", says: "does not come from a Kubernetes API server"},
		"OtherObject":  {reason: "an answer of another type", handler: apiError(200, `{"kind":"Secret","apiVersion":"v1","data":"s3cret"}`), want: ""},
		"Empty":        {reason: "an empty answer", handler: apiError(200, ""), want: "WorkloadServerError"},
		"UnknownCode":  {reason: "an unknown code counts as the first of its class", handler: apiError(499, "s3cret"), want: "WorkloadRejected", says: "400"},
		"InvalidCode":  {reason: "a code without a class counts as a failure", handler: cut("HTTP/1.1 999 s3cret\r\nContent-Length: 0\r\n\r\n"), want: "WorkloadServerError", says: "500"},
		"OtherProtocol": {reason: "the connection is not for anything else", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "s3cret")
			w.WriteHeader(http.StatusSwitchingProtocols)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, want: "WorkloadServerError", says: "500"},
		"Redirect": {reason: "credentials do not follow", handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/s3cret", http.StatusFound)
		}, want: "WorkloadServerError", says: "redirects"},
		"RetryAfter": {reason: "a server cannot make us wait for an hour", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3600")
			apiError(429, "s3cret")(w, r)
		}, want: "WorkloadTimeout"},
		"Silence":     {reason: "a server cannot make us wait for ever", handler: neverAnswer, want: "WorkloadTimeout", says: "200ms"},
		"Stalled":     {reason: "not half way either", handler: stalled, want: "WorkloadTimeout"},
		"Endless":     {reason: "nor fill our memory", handler: endless, want: "WorkloadServerError", says: "bytes"},
		"Cut":         {reason: "the connection ends early", handler: cut("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), want: "WorkloadUnreachable", says: "workload cluster broke"},
		"NoHTTP":      {reason: "the other side speaks something else", handler: cut("s3cret\r\n\r\n"), want: "WorkloadUnreachable", says: "workload cluster broke"},
		"ManyHeaders": {reason: "headers are bounded as well", handler: cut("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("s3cret", 100_000) + "\r\n\r\n"), want: "WorkloadUnreachable"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := newAPIServer(t, tc.handler)
			o := Options{}
			if tc.want == "WorkloadTimeout" {
				o.Timeout = 200 * time.Millisecond
			}
			err := findJob(t.Context(), connect(t, o, written(t, server.URL, server.certificate.certPEM)))
			if tc.want == "" {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			wantProblem(t, err, outcome.KindFail, tc.want)
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("want %q in: %v", tc.says, err)
			}
			if t.Failed() {
				t.Log(tc.reason)
			}
		})
	}
	if leaked.Load() {
		t.Error("credentials followed a redirect")
	}
}

func stalled(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "{")
	_ = http.NewResponseController(w).Flush()
	neverAnswer(w, r)
}

// neverAnswer waits until the client has gone, and resets the stream then: a handler that returns answers with status
// 200, which a client that is just giving up may still take.
func neverAnswer(_ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

func endless(w http.ResponseWriter, _ *http.Request) {
	chunk := bytes.Repeat([]byte(" "), 1<<16)
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func cut(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(connection, raw)
		_ = connection.Close()
	}
}

// TestReset meets what a load balancer without servers behind it does. client-go would repeat
// the request until the timeout.
func TestReset(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var tries atomic.Int64
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			reset(connection)
		}
	}()
	server := newAPIServer(t, func(w http.ResponseWriter, _ *http.Request) {
		tries.Add(1)
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		reset(connection)
	})
	for name, url := range map[string]string{
		"Connection": "https://" + listener.Addr().String(),
		"Request":    server.URL,
	} {
		t.Run(name, func(t *testing.T) {
			tries.Store(0)
			err := findJob(t.Context(), connect(t, Options{}, written(t, url, server.certificate.certPEM)))
			wantProblem(t, err, outcome.KindFail, "WorkloadUnreachable")
			if !strings.Contains(err.Error(), "connection reset by peer") {
				t.Errorf("%v does not say why", err)
			}
			if got := tries.Load(); got != 1 {
				t.Errorf("want one try, got %d", got)
			}
		})
	}
}

// TestSilentProxy tries again and again through a SOCKS proxy that accepts connections and says nothing.
func TestSilentProxy(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var opened, ended atomic.Int64
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			opened.Add(1)
			go func() {
				// To the end that the client makes of it.
				_, _ = io.Copy(io.Discard, connection)
				_ = connection.Close()
				ended.Add(1)
			}()
		}
	}()
	c := connect(t, Options{Timeout: 100 * time.Millisecond, Allow: kubeconfig.Allow{LocalProxies: true}}, written(t, "https://10.0.0.1:6443", nil, func(cluster *api.Cluster, _ *api.AuthInfo) {
		cluster.ProxyURL = "socks5://" + listener.Addr().String()
	}))
	// On a slow machine some time out before they connect.
	for tries := 0; tries < 5 || opened.Load() == 0; tries++ {
		err := findJob(t.Context(), c)
		wantProblem(t, err, outcome.KindFail, "WorkloadTimeout")
	}
	for end := time.Now().Add(time.Minute); ended.Load() < opened.Load(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d connections stay open", opened.Load()-ended.Load(), opened.Load())
		}
	}
}

// reset ends a connection without a goodbye.
func reset(connection net.Conn) {
	if secure, ok := connection.(*tls.Conn); ok {
		connection = secure.NetConn()
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

func TestTLSOfStrangers(t *testing.T) {
	valid, expired := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	mine := newCertificate(t, "127.0.0.1", valid)
	plain := httptest.NewServer(jobs(""))
	t.Cleanup(plain.Close)
	cases := map[string]struct {
		reason string
		server certificate
		ca     []byte
		says   string
	}{
		"Trusted":   {reason: "the kubeconfig knows the certificate", server: mine, ca: mine.certPEM},
		"OtherCA":   {reason: "the CA was rotated", server: newCertificate(t, "127.0.0.1", valid), ca: mine.certPEM, says: "not signed by the CA"},
		"OtherHost": {reason: "the certificate is for another host", server: newCertificate(t, "other.example.com", valid), says: "not for the host"},
		"Expired":   {reason: "the certificate has expired", server: newCertificate(t, "127.0.0.1", expired), says: "API server has expired"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := newAPIServerWith(t, tc.server, jobs(""))
			if tc.ca == nil {
				tc.ca = tc.server.certPEM
			}
			err := findJob(t.Context(), connect(t, Options{}, written(t, server.URL, tc.ca)))
			if tc.says == "" {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			wantProblem(t, err, outcome.KindFail, "WorkloadTLSNotTrusted")
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: want %q in: %v", tc.reason, tc.says, err)
			}
		})
	}
	t.Run("NoTLS", func(t *testing.T) {
		err := findJob(t.Context(), connect(t, Options{}, written(t, "https://"+plain.Listener.Addr().String(), mine.certPEM)))
		wantProblem(t, err, outcome.KindFail, "WorkloadTLSNotTrusted")
	})
}

func TestExpiredClientCertificate(t *testing.T) {
	server := newAPIServer(t, apiError(401, "{}"))
	end := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	old := newCertificate(t, "admin", end)
	c := connect(t, Options{}, written(t, server.URL, server.certificate.certPEM, func(_ *api.Cluster, u *api.AuthInfo) {
		u.Token, u.ClientCertificateData, u.ClientKeyData = "", old.certPEM, old.keyPEM
	}))
	err := findJob(t.Context(), c)
	wantProblem(t, err, outcome.KindFail, "WorkloadUnauthorized")
	if !strings.Contains(err.Error(), "expired at 2020-01-02T03:04:05Z") {
		t.Errorf("the message does not say that the certificate expired: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, tc := range map[string]struct{ host, want string }{
		"Refused":     {host: gone.Listener.Addr().String(), want: "WorkloadUnreachable"},
		"UnknownHost": {host: "workload.invalid", want: "WorkloadUnreachable"},
		"NoHandshake": {host: silent.Addr().String(), want: "WorkloadTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{}
			if tc.want == "WorkloadTimeout" {
				o.DialTimeout = 200 * time.Millisecond
			}
			c := connect(t, o, written(t, "https://"+tc.host, nil))
			err := findJob(t.Context(), c)
			wantProblem(t, err, outcome.KindFail, tc.want)
		})
	}
}

func TestCanceledByCaller(t *testing.T) {
	server := newAPIServer(t, neverAnswer)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := findJob(ctx, connect(t, Options{}, written(t, server.URL, server.certificate.certPEM)))
	var problem *outcome.Problem
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &problem) {
		t.Errorf("want the error of the context, got %v", err)
	}
}
