package agent

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/workload"
)

const secretToken = "s3cret-bearer-token-of-the-workload"

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
	clients, err := workload.NewClients(fake.NewClientBuilder().WithObjects(secret).Build(), workload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	from := workload.Kubeconfig{Secret: types.NamespacedName{Namespace: "tenant", Name: "a"}, Key: "value"}
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
	problem, ok := errors.AsType[*outcome.Problem](err)
	if !ok || problem.Kind != kind || problem.Reason != reason {
		t.Fatalf("want a Problem %s %s, got %v", kind, reason, err)
	}
	wantNoSecret(t, err)
}

// wantNoSecret fails the test when a value shows a credential.
func wantNoSecret(t *testing.T, value any) {
	t.Helper()
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("value", "value", value)
	texts := []string{logged.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		texts = append(texts, fmt.Sprintf(verb, value), fmt.Sprintf(verb, struct{ hidden any }{value}))
	}
	for _, text := range texts {
		if strings.Contains(text, "s3cret") || strings.Contains(text, fmt.Sprintf("%x", "s3cret")) {
			t.Errorf("shows a credential: %s", text)
		}
	}
}
