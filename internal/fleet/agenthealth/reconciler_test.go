package agenthealth

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	crconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/providers/clusters"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
)

const (
	agentPath  = "/apis/apps/v1/namespaces/cattle-system/deployments/cattle-cluster-agent"
	secretPath = "/api/v1/namespaces/cattle-system/secrets/"
	agentBody  = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"cattle-system","name":"cattle-cluster-agent"},
		"spec":{"template":{"spec":{"containers":[{"name":"a","env":[{"name":"CATTLE_CREDENTIAL_NAME","value":"cattle-credentials-1"}]}]}}}}`
	secret = `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"cattle-system","name":"cattle-credentials-1"}}`
)

func TestAgentsThatGoAndCome(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	store := workloadserver.Handler()
	write := func(method, path, body string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/apply-patch+yaml")
		w := httptest.NewRecorder()
		if store.ServeHTTP(w, r); w.Code >= http.StatusMultipleChoices {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	write(http.MethodPatch, "/api/v1/namespaces/cattle-system", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"cattle-system"}}`)
	agents, woken := start(t, store)
	key := types.NamespacedName{Namespace: "default", Name: "one"}
	// What happens before the last watch has its handler is not told.
	write(http.MethodPatch, secretPath+"cattle-credentials-1", secret)
	write(http.MethodPatch, agentPath, agentBody)
	eventually(t, "the agent is seen", func() bool { return agents.knows(key) })
	pause := 50 * time.Millisecond
	eventually(t, "all is watched", func() bool {
		write(http.MethodDelete, secretPath+"cattle-credentials-1", "")
		<-time.After(pause)
		pause *= 2 // until the machine is fast enough
		gone := agents.Gone(key)
		write(http.MethodPatch, secretPath+"cattle-credentials-1", secret)
		return gone
	})
	eventually(t, "the agent is complete", func() bool { return !agents.Gone(key) })
	for _, step := range []struct {
		name, method, path, body string
		gone                     bool
	}{
		{name: "the agent goes", method: http.MethodDelete, path: agentPath, gone: true},
		{name: "the agent comes back", method: http.MethodPatch, path: agentPath, body: agentBody},
		{name: "the Secret goes", method: http.MethodDelete, path: secretPath + "cattle-credentials-1", gone: true},
		{name: "the Secret comes back", method: http.MethodPatch, path: secretPath + "cattle-credentials-1", body: secret},
	} {
		at := woken.Load()
		write(step.method, step.path, step.body)
		eventually(t, step.name, func() bool { return agents.Gone(key) == step.gone && woken.Load() > at })
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// knows is whether the agent of a cluster was seen.
func (a *Agents) knows(key types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.seen[key]
	return known
}

// start runs the controller with multicluster-runtime, over one workload cluster.
func start(t *testing.T, store http.Handler) (*Agents, *atomic.Int64) {
	t.Helper()
	server := httptest.NewTLSServer(store)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	local, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller:     crconfig.Controller{SkipNameValidation: new(true)},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	provider := clusters.New()
	fleet, err := mcmanager.WithMultiCluster(local, provider)
	if err != nil {
		t.Fatal(err)
	}
	agents, woken := &Agents{}, &atomic.Int64{}
	agents.Tell(func(types.NamespacedName) { woken.Add(1) })
	if err := AddToManager(fleet, agents); err != nil {
		t.Fatal(err)
	}
	of, err := cluster.New(config, ClusterOptions(clientgoscheme.Scheme))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- fleet.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := provider.Add(ctx, "default/one", of); err != nil {
		t.Fatal(err)
	}
	return agents, woken
}
