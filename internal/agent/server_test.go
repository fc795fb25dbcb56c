package agent

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/test/problem"
)

const (
	credential  = "s3cret"
	secretToken = credential + "-bearer-token-of-the-workload"
)

// connect returns a client of a workload cluster that answers as told.
func connect(t *testing.T, handler http.HandlerFunc) *workload.Client {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	raw, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{"a": {
			Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
		AuthInfos:      map[string]*api.AuthInfo{"a": {Token: secretToken}},
		Contexts:       map[string]*api.Context{"a": {Cluster: "a", AuthInfo: "a"}},
		CurrentContext: "a",
	})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{Data: map[string][]byte{"value": raw}}
	secret.Namespace, secret.Name = "tenant", "a"
	clients, err := workload.NewClients(fake.NewClientBuilder().WithObjects(secret).Build(), workload.Options{Timeout: time.Minute, DialTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	from := kubeconfig.Source{Secret: types.NamespacedName{Namespace: "tenant", Name: "a"}, Key: "value"}
	cluster, err := clients.Get(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clients.Forget(from) })
	return cluster
}

func answer(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// wantProblem fails the test unless err is a Problem of the kind and reason.
func wantProblem(t *testing.T, err error, kind outcome.Kind, reason string) {
	t.Helper()
	problem.Want(t, err, kind, reason, credential)
}
