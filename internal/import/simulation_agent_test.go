package importer_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

const otherURL = "https://other.example.com"

// site is a workload cluster.
type site struct {
	agent installed
	// half is an agent of which everything is there but the Deployment.
	half installed
	// cleanup is the v3 Cluster, by UID, for which Rancher's Job that removes the agent is under way.
	cleanup types.UID
	// session is the v3 Cluster whose agent has connected. It lasts until Rancher has noticed that the agent is gone.
	session string
	// installedFor is the v3 Cluster, by UID, for which a manager has installed the agent last.
	installedFor types.UID
}

// installed is an agent of Rancher.
type installed struct {
	exists, credentials bool
	// features: Rancher has applied it itself.
	features                             bool
	server, token, cluster, applied, env string
}

// stranger reports whether it is the live agent of somebody else.
func (a installed) stranger() bool { return a.server == otherURL || a.cluster == "c-vvvvv" }

// opened is a workload cluster in the hands of a manager.
type opened struct {
	*site
	m   *manager
	key types.NamespacedName
}

// Inspect implements importer.Site. What is seen of an agent is what the real inspection sees of one.
func (o opened) Inspect(ctx context.Context) (agent.State, error) {
	defer func() {
		if cause := recover(); cause != nil {
			o.m.w.fail("an inspection panics: %v", cause)
		}
	}()
	return inspected(context.WithoutCancel(ctx), o.agent), nil
}

// UID implements importer.Site.
func (o opened) UID(context.Context) (types.UID, error) {
	return types.UID("workload-" + o.key.String()), nil
}

// NoCleanup implements importer.Site.
func (o opened) NoCleanup(context.Context) error {
	if o.cleanup == "" {
		return nil
	}
	return &outcome.Problem{
		Kind: outcome.KindPoll, Reason: archelonv1.WaitingForCleanupReason, Message: "it is cleaned up", After: 5 * time.Second,
	}
}

// Install implements importer.Site.
func (o opened) Install(_ context.Context, objects []*unstructured.Unstructured, force bool) (bool, error) {
	if o.m.dead {
		return false, errDead
	}
	next, deployed, alone := installed{exists: true, credentials: true, features: o.agent.features, server: simURL}, false, true
	for _, object := range objects {
		switch object.GetKind() {
		case "Secret":
			encoded, _, _ := unstructured.NestedString(object.Object, "data", "token")
			token, _ := base64.StdEncoding.DecodeString(encoded)
			next.token, next.cluster = string(token), object.GetAnnotations()[archelonv1.AgentClusterAnnotation]
			alone = false
		case "Deployment":
			next.applied = object.GetAnnotations()[archelonv1.AppliedAnnotation]
			next.env, deployed = object.GetLabels()["env"], true
		}
	}
	if !deployed {
		o.half = next // Nothing registers.
		o.m.w.changes++
		return false, nil
	}
	if alone {
		next.token, next.cluster = o.half.token, o.half.cluster
	}
	if o.agent.exists && (o.agent.features || alone) && !force && o.agent.token != next.token {
		return false, &outcome.Problem{Kind: outcome.KindFail, Reason: archelonv1.AgentConflictReason, Message: "Rancher owns it"}
	}
	o.m.w.checkInstall(o.key, o.agent, next)
	o.m.w.say("   %s installs the agent of %s in the workload cluster of %s", o.m.name, next.cluster, o.key)
	if cluster := o.m.w.object(v3GK, "", next.cluster); cluster != nil {
		o.installedFor = cluster.GetUID()
	}
	o.agent = next
	o.m.w.changes++
	return false, nil
}

// Diagnose implements importer.Site.
func (opened) Diagnose(context.Context, agent.State, bool) agent.Cause { return agent.Unknown }

// Manifest implements importer.Downloader: Rancher makes it for a token that it knows.
func (w *world) Manifest(
	_ context.Context, registration rancher.Registration, _ rancher.Trust,
) (*rancher.Manifest, error) {
	if w.tokenOf(registration.Cluster()) != registration.Tokens()[0] {
		return nil, &outcome.Problem{
			Kind: outcome.KindFail, Reason: archelonv1.RegistrationRefusedReason, Message: "Rancher does not know this token",
		}
	}
	env := ""
	if cluster, ok := w.object(v3GK, "", registration.Cluster()).(*managementv3.Cluster); ok {
		env = envOf(cluster)
	}
	return manifestOf(registration.Tokens()[0], env)
}

func envOf(cluster *managementv3.Cluster) string {
	var names []string
	for _, variable := range cluster.Spec.AgentEnvVars {
		names = append(names, variable.Name+"."+variable.Value)
	}
	return strings.Join(names, "_")
}

var manifests sync.Map

func manifestOf(token, env string) (*rancher.Manifest, error) {
	if known, ok := manifests.Load(token + " " + env); ok {
		found, _ := known.(*rancher.Manifest)
		return found, nil
	}
	variables := ""
	for variable := range strings.SplitSeq(env, "_") {
		if name, value, ok := strings.Cut(variable, "."); ok {
			variables += fmt.Sprintf("\n        - {name: %s, value: %q}", name, value)
		}
	}
	manifest, err := rancher.ParseManifest(fmt.Appendf(nil, `apiVersion: v1
kind: Secret
metadata: {name: cattle-credentials-x, namespace: cattle-system}
type: Opaque
data: {url: %s, token: %s, namespace: ""}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cattle-cluster-agent, namespace: cattle-system, labels: {env: %q}}
spec:
  template:
    spec:
      containers:
      - name: cluster-register
        env:
        - {name: CATTLE_SERVER, value: %q}
        - {name: CATTLE_CREDENTIAL_NAME, value: cattle-credentials-x}%s
`, encoded(simURL), encoded(token), env, simURL, variables))
	if err != nil {
		return nil, err
	}
	manifests.Store(token+" "+env, manifest)
	return manifest, nil
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

var (
	states     sync.Map
	inspecting sync.Mutex
)

// inspected is what a real inspection of such an agent sees. It is made once for each.
func inspected(ctx context.Context, a installed) agent.State {
	if known, ok := states.Load(a); ok {
		state, _ := known.(agent.State)
		return state
	}
	inspecting.Lock()
	defer inspecting.Unlock()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch deployment := strings.Contains(r.URL.Path, "/deployments/"); {
		case !a.exists, !deployment && !a.credentials:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		case deployment:
			_, _ = w.Write(a.deployment())
		default:
			_, _ = w.Write(a.secret())
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	raw, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{"a": {
			Server:                   server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
		AuthInfos:      map[string]*api.AuthInfo{"a": {Token: "x"}},
		Contexts:       map[string]*api.Context{"a": {Cluster: "a", AuthInfo: "a"}},
		CurrentContext: "a",
	})
	if err != nil {
		panic(err)
	}
	clients, err := workload.NewClients(oneSecret{raw: raw}, workload.Options{Timeout: time.Minute, DialTimeout: time.Minute})
	if err != nil {
		panic(err)
	}
	from := kubeconfig.Source{Secret: types.NamespacedName{Namespace: "a", Name: "a"}, Key: "value"}
	defer clients.Forget(from)
	cluster, err := clients.Get(ctx, from)
	if err != nil {
		panic(err)
	}
	state, err := agent.Inspect(ctx, cluster)
	if err != nil {
		panic(err)
	}
	states.Store(a, state)
	return state
}

type oneSecret struct {
	client.Reader
	raw []byte
}

// Get implements client.Reader.
func (s oneSecret) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if secret, ok := into.(*corev1.Secret); ok {
		secret.Data = map[string][]byte{"value": s.raw}
	}
	return nil
}

func (a installed) deployment() []byte {
	env := []map[string]string{
		{"name": "CATTLE_SERVER", "value": a.server}, {"name": "CATTLE_CREDENTIAL_NAME", "value": "cattle-credentials-x"},
	}
	if a.features {
		env = append(env, map[string]string{"name": "CATTLE_FEATURES", "value": "multi-cluster-management-agent=true"})
	}
	for variable := range strings.SplitSeq(a.env, "_") {
		if name, value, ok := strings.Cut(variable, "."); ok {
			env = append(env, map[string]string{"name": name, "value": value})
		}
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"annotations": map[string]string{archelonv1.AppliedAnnotation: a.applied}},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"env": env}},
		}}},
		"status": map[string]any{"availableReplicas": 1},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func (a installed) secret() []byte {
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"annotations": map[string]string{archelonv1.AgentClusterAnnotation: a.cluster}},
		"data":     map[string][]byte{"token": []byte(a.token), "url": []byte(a.server)},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

// checkInstall is what must hold for an installation: a live agent is never taken over.
func (w *world) checkInstall(key types.NamespacedName, before, after installed) {
	cluster, ok := w.object(v3GK, "", after.cluster).(*managementv3.Cluster)
	if ok {
		w.checkNamed(cluster)
	}
	if !ok || !before.exists || !before.credentials || before.cluster == after.cluster || before.cluster == "" {
		return
	}
	approved := w.approved[key]
	if before.server != simURL {
		if !slices.Contains(approved, "other.example.com") {
			w.fail("it takes over the live agent of another Rancher in the workload cluster of %s", key)
		}
		return
	}
	other, ok := w.object(v3GK, "", before.cluster).(*managementv3.Cluster)
	if !ok || other.DeletionTimestamp != nil || other.Labels[uidLabel] == cluster.Labels[uidLabel] ||
		slices.Contains(approved, before.cluster) {
		return
	}
	w.fail("it takes over the live agent of %s in the workload cluster of %s, for %s", before.cluster, key, after.cluster)
}
