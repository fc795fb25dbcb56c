package edge

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

var secretKey = types.NamespacedName{Namespace: "archelon-system", Name: "rancher"}

// ranchers is an API server that knows who has asked.
type ranchers struct {
	*httptest.Server

	mu   sync.Mutex
	seen string
}

func newRanchers(t *testing.T) *ranchers {
	t.Helper()
	r := &ranchers{}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen = req.Header.Get("Authorization")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *ranchers) kubeconfig(t *testing.T, token string, change ...func(*api.Config)) []byte {
	t.Helper()
	config := &api.Config{
		Clusters: map[string]*api.Cluster{"r": {
			Server:                   r.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}),
		}},
		AuthInfos: map[string]*api.AuthInfo{"r": {Token: token}},
		Contexts:  map[string]*api.Context{"r": {Cluster: "r", AuthInfo: "r"}}, CurrentContext: "r",
	}
	for _, c := range change {
		c(config)
	}
	raw, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func secretWith(kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}, Data: map[string][]byte{KubeconfigKey: kubeconfig},
	}
}

// ask sends a request and returns the credentials that arrived.
func (r *ranchers) ask(t *testing.T, config *rest.Config) string {
	t.Helper()
	hc, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/version", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

func TestConnectRefusesWhatIsNotSafe(t *testing.T) {
	server := newRanchers(t)
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"no Secret":     {secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "y"}}, want: "not found"},
		"no kubeconfig": {secret: secretWith(nil), want: "key value of Secret archelon-system/rancher, cannot be used"},
		"a program": {secret: secretWith(server.kubeconfig(t, "", func(c *api.Config) {
			c.AuthInfos["r"] = &api.AuthInfo{Exec: &api.ExecConfig{Command: "s3cret", APIVersion: "client.authentication.k8s.io/v1"}}
		})), want: "cannot be used"},
		"no TLS": {secret: secretWith(server.kubeconfig(t, "s3cret", func(c *api.Config) { c.Clusters["r"].Server = "http://s3cret" })), want: "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Connect(t.Context(), fake.NewClientset(tc.secret), secretKey, logr.Discard())
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCredentialsChangeBelowClients(t *testing.T) {
	server, ctx := newRanchers(t), t.Context()
	clients := fake.NewClientset(secretWith(server.kubeconfig(t, "first")))
	connection, err := Connect(ctx, clients, secretKey, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	config := connection.Config()
	if got := server.ask(t, config); got != "Bearer first" {
		t.Fatalf("got %q", got)
	}
	following, stop := context.WithCancel(ctx)
	moved, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- connection.Follow(following, func(why string) {
			select {
			case moved <- why:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	change := func(kubeconfig []byte) {
		t.Helper()
		if _, err := clients.CoreV1().Secrets(secretKey.Namespace).Update(ctx, secretWith(kubeconfig), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	become := func(token string) {
		t.Helper()
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return server.ask(t, config) == "Bearer "+token, nil //nolint:contextcheck // that of the test
		})
		if err != nil {
			t.Fatalf("waiting for token %s: %v", token, err)
		}
	}
	change(server.kubeconfig(t, "second"))
	become("second")
	change([]byte("no kubeconfig"))
	change(server.kubeconfig(t, "third"))
	become("third")
	select {
	case why := <-moved:
		t.Fatalf("new credentials are no other server: %s", why)
	default:
	}

	other := newRanchers(t)
	change(other.kubeconfig(t, "elsewhere"))
	if why := <-moved; why == "" {
		t.Error("nobody was told why")
	}
	if got := server.ask(t, config); got != "Bearer third" {
		t.Errorf("credentials for another server were sent to the first: %q", got)
	}
}
