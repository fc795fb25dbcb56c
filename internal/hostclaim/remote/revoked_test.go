package remote

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/internal/workload"
)

// apiServer answers lists and watches of nothing. When credentials are revoked, a watch goes on until its time is over:
// an API server looks at them when it begins. Here that is at once.
type apiServer struct {
	*httptest.Server

	revoked chan struct{}
	answer  string
}

func newAPIServer(t *testing.T, code int, reason, message string) *apiServer {
	t.Helper()
	s := &apiServer{revoked: make(chan struct{})}
	s.answer = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code)
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		query := req.URL.Query()
		select {
		case <-s.revoked:
			w.WriteHeader(code)
			_, _ = io.WriteString(w, s.answer)
			return
		default:
		}
		switch {
		case query.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusBadRequest) // It has to list, as on an old server.
		case query.Get("watch") == "":
			_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		default:
			if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err != nil || seconds > 120 {
				t.Errorf("a watch lasts %q seconds, and so long revoked credentials are not noticed", query.Get("timeoutSeconds"))
			}
			w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's is one
			select {
			case <-s.revoked:
			case <-req.Context().Done():
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// kubeconfig is one for the server.
func (s *apiServer) kubeconfig(t *testing.T) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	raw, err := clientcmd.Write(api.Config{
		Clusters:  map[string]*api.Cluster{"c": {Server: s.URL, CertificateAuthorityData: ca}},
		AuthInfos: map[string]*api.AuthInfo{"u": {Token: "t0ken"}},
		Contexts:  map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u", Namespace: "n"}}, CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// idleSource is a source to which nothing happens.
type idleSource struct {
	all   *Connections
	woken chan types.NamespacedName
}

func newIdleSource(t *testing.T, s *apiServer) idleSource {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}, Data: map[string][]byte{"kubeconfig": s.kubeconfig(t)}}
	clients, err := workload.NewClients(fake.NewClientBuilder().WithScheme(simScheme()).WithObjects(secret).Build(), workload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	i := idleSource{NewConnections(clients, simScheme()), make(chan types.NamespacedName, 100)}
	t.Cleanup(func() {
		i.all.end()
		i.all.running.Wait()
	})
	i.all.wakes(func(source types.NamespacedName, _ time.Duration) { i.woken <- source })
	return i
}

// expect waits until the source hears this. It asks when it is woken, as its controller does.
func (i idleSource) expect(t *testing.T, want string) {
	t.Helper()
	source, credentials := types.NamespacedName{Namespace: "a", Name: "idle"}, Credentials{Secret: types.NamespacedName{Namespace: "a", Name: "s"}}
	for timeout := time.After(time.Minute); ; {
		_, err := i.all.Use(t.Context(), source, "origin", credentials)
		got := "ready"
		if problem := problemOf(err); problem != nil {
			got = problem.Reason
		}
		if got == want {
			return
		}
		select {
		case <-i.woken:
		case <-timeout:
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

// A source to which nothing happens learns that its credentials were revoked, as soon as a watch ends.
func TestRevokedCredentialsOfAnIdleSourceAreReported(t *testing.T) {
	for name, s := range map[string]*apiServer{
		"a token that was revoked": newAPIServer(t, 401, "Unauthorized", "Unauthorized"),
		"a Role that was deleted":  newAPIServer(t, 403, "Forbidden", `hostclaims.metal3.io is forbidden: User "u" cannot watch resource "hostclaims"`),
	} {
		t.Run(name, func(t *testing.T) {
			i := newIdleSource(t, s)
			i.expect(t, "ready")
			close(s.revoked)
			i.expect(t, "CredentialsInvalid")
		})
	}
}
