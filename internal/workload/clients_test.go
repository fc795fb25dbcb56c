package workload

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/outcome"
)

func TestGetReusesClients(t *testing.T) {
	first, second := written(t, "https://127.0.0.1:1", nil), written(t, "https://127.0.0.1:2", nil)
	secret := kubeconfigSecret(map[string][]byte{"value": first})
	clients, management := clientsOf(t, Options{}, secret)
	get := func() *Client {
		t.Helper()
		c, err := clients.Get(t.Context(), testKubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	update := func(raw []byte, note string) {
		t.Helper()
		secret.Data["value"], secret.Data["note"] = raw, []byte(note)
		if err := management.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}

	one := get()
	wantNoSecret(t, one)
	update(first, "another key changes nothing")
	if again := get(); again != one {
		t.Error("a new client for the same kubeconfig")
	}
	update(second, "")
	two := get()
	if two == one || two.fingerprint == one.fingerprint {
		t.Error("the old client for a new kubeconfig")
	}
	clients.Forget(testKubeconfig)
	if again := get(); again == two || again.fingerprint != two.fingerprint {
		t.Error("a client outlived Forget")
	}
}

func TestGetRefuses(t *testing.T) {
	cases := map[string]struct {
		reason  string
		secrets []client.Object
		want    string
	}{
		"NoSecret": {reason: "the control plane provider has not made it", want: "KubeconfigMissing"},
		"NoKey":    {reason: "a Secret of another form", secrets: []client.Object{kubeconfigSecret(map[string][]byte{"kubeconfig": []byte("x")})}, want: "KubeconfigMissing"},
		"Empty":    {reason: "an empty value", secrets: []client.Object{kubeconfigSecret(map[string][]byte{"value": {}})}, want: "KubeconfigMissing"},
		"Invalid":  {reason: "what is inside is looked at", secrets: []client.Object{kubeconfigSecret(map[string][]byte{"value": []byte("s3cret")})}, want: "KubeconfigInvalid"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clients, _ := clientsOf(t, Options{}, tc.secrets...)
			_, err := clients.Get(t.Context(), testKubeconfig)
			wantProblem(t, err, outcome.KindWait, tc.want)
		})
	}
	t.Run("FailingServer", func(t *testing.T) {
		broken := errors.New("etcd is down")
		clients, err := NewClients(interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return broken
			},
		}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clients.Get(t.Context(), testKubeconfig); !errors.Is(err, broken) {
			t.Errorf("the cause is lost: %v", err)
		}
	})
}

func TestGetFromSeveralWorkers(t *testing.T) {
	clients, _ := clientsOf(t, Options{}, kubeconfigSecret(map[string][]byte{"value": written(t, "https://127.0.0.1:1", nil)}))
	got := make([]*Client, 8)
	var workers sync.WaitGroup
	for i := range got {
		workers.Go(func() {
			c, err := clients.Get(t.Context(), testKubeconfig)
			if err != nil {
				t.Error(err)
			}
			got[i] = c
		})
	}
	workers.Wait()
	for _, c := range got {
		if c != got[0] {
			t.Error("two clients for one kubeconfig")
		}
	}
}

func TestForgetClosesConnections(t *testing.T) {
	server := newAPIServer(t, jobs(""))
	clients, _ := clientsOf(t, Options{}, kubeconfigSecret(map[string][]byte{"value": written(t, server.URL, server.certificate.certPEM)}))
	for range 3 {
		c, err := clients.Get(t.Context(), testKubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if err := findJob(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if got := server.opened.Load(); got != 1 {
		t.Errorf("want one connection for three requests, got %d", got)
	}
	clients.Forget(testKubeconfig)
	select {
	case <-server.closed:
	case <-time.After(time.Minute):
		t.Error("the connection of a forgotten cluster stays open")
	}
}

func TestNewClientsRefuses(t *testing.T) {
	reader := fake.NewClientBuilder().Build()
	for _, o := range []Options{{Timeout: -1}, {DialTimeout: -1}} {
		if _, err := NewClients(reader, o); err == nil {
			t.Errorf("accepted %+v", o)
		}
	}
	if _, err := NewClients(nil, Options{}); err == nil {
		t.Error("accepted no reader")
	}
}

// jobs answers with a list of Jobs.
func jobs(items string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"batch/v1","kind":"JobList","metadata":{},"items":[` + items + `]}`))
	}
}

// Two contexts of one kubeconfig are two accesses.
func TestEachContextHasItsClient(t *testing.T) {
	const twoContexts = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://c:6443"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: in, context: {cluster: c, user: u, namespace: user1}}
- {name: beside, context: {cluster: c, user: u}, namespace: user2}
current-context: in
`
	clients, _ := clientsOf(t, Options{}, kubeconfigSecret(map[string][]byte{"value": []byte(twoContexts)}))
	other := testKubeconfig
	other.Context = "beside"
	first, err := clients.Get(t.Context(), testKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	second, err := clients.Get(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if first.Place().Namespace != "user1" || second.Place().Namespace != "user2" || !strings.HasPrefix(first.Place().Server, "https://c") {
		t.Errorf("got %+v and %+v", first.Place(), second.Place())
	}
}
