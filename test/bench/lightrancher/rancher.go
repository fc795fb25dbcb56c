// Package lightrancher does the least of Rancher that an import needs: it gives each Rancher cluster a registration
// token, serves the manifest of the agent, and reports agents as connected. That is four writes for a v3 Cluster and
// six for a v1 Cluster, where Rancher makes dozens. Beside it a benchmark sees the importer; beside
// test/standin/rancher, which plays Rancher in full, it sees mostly Rancher.
package lightrancher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// workers is how many clusters are worked on at once, about as many as Rancher does.
	workers = 20
	// backlog holds what the workers have not come to; it suffices for thousands of clusters.
	backlog    = 1 << 16
	ownerLabel = "cluster-api.cattle.io/capi-cluster-owner"
)

// Rancher is running until Stop.
type Rancher struct {
	client   client.Client // without a cache
	prepares time.Duration
	manifest *template.Template
	server   *httptest.Server
	queue    chan func(context.Context) error
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu        sync.Mutex
	failure   error
	byOwner   map[string]string // name of the CAPI cluster -> name of the v3 Cluster
	downloads []time.Time
}

// Start creates the settings that an import reads and begins to react to Rancher clusters. The CRDs must be there.
// manifest is the template of the agent's manifest in test/standin/rancher. An agent may register this long after there
// is a token for it. ctx bounds the start only.
func Start(ctx context.Context, config *rest.Config, manifest string, prepares time.Duration) (*Rancher, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = "light-rancher"
	known := runtime.NewScheme()
	if err := corev1.AddToScheme(known); err != nil {
		return nil, err
	}
	parsed, err := parseManifest(manifest)
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		return nil, fmt.Errorf("creating a client for Rancher: %w", err)
	}
	r := &Rancher{client: c, prepares: prepares, manifest: parsed, queue: make(chan func(context.Context) error, backlog), byOwner: map[string]string{}}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.serveManifest))
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.server.StartTLS()
	var running context.Context
	running, r.cancel = context.WithCancel(context.Background())
	if err := errors.Join(r.installSettings(ctx), r.follow(ctx, running, config, known)); err != nil {
		r.Stop()
		return nil, err
	}
	for range workers {
		r.running.Go(func() { r.work(running) })
	}
	return r, nil
}

// Stop ends everything.
func (r *Rancher) Stop() {
	r.cancel()
	r.running.Wait()
	r.server.Close()
}

// Err returns the first thing that went wrong.
func (r *Rancher) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// Downloads returns when manifests were asked for.
func (r *Rancher) Downloads() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Time(nil), r.downloads...)
}

// Connect reports the agent in the workload cluster of a CAPI cluster as connected, after a while. Names of CAPI
// clusters must be unique over all namespaces.
func (r *Rancher) Connect(cluster string, after time.Duration) {
	time.AfterFunc(after, func() {
		r.mu.Lock()
		name := r.byOwner[cluster]
		r.mu.Unlock()
		r.queue <- func(ctx context.Context) error { return r.reportConnected(ctx, name) }
	})
}

func (r *Rancher) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case task := <-r.queue:
			if err := task(ctx); err != nil && ctx.Err() == nil {
				r.mu.Lock()
				r.failure = errors.Join(r.failure, err)
				r.mu.Unlock()
			}
		}
	}
}

// follow queues work for each Rancher cluster that appears.
func (r *Rancher) follow(ctx, running context.Context, config *rest.Config, known *runtime.Scheme) error {
	clusters, err := cache.New(config, cache.Options{Scheme: known, Mapper: r.client.RESTMapper()})
	if err != nil {
		return fmt.Errorf("building Rancher's cache: %w", err)
	}
	for kind, react := range map[schema.GroupVersionKind]func(context.Context, *unstructured.Unstructured) error{
		managementKind():   r.register,
		provisioningKind(): r.derive,
	} {
		informer, err := clusters.GetInformer(ctx, object(kind, "", ""), cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind.GroupKind(), err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(added any) {
			if cluster, ok := added.(*unstructured.Unstructured); ok {
				r.queue <- func(ctx context.Context) error { return react(ctx, cluster.DeepCopy()) }
			}
		}}); err != nil {
			return fmt.Errorf("watching %s: %w", kind.GroupKind(), err)
		}
	}
	r.running.Go(func() { _ = clusters.Start(running) }) // it fails in no other way than by its context
	if !clusters.WaitForCacheSync(ctx) {
		return fmt.Errorf("filling Rancher's cache: %w", context.Cause(ctx))
	}
	return nil
}

func (r *Rancher) installSettings(ctx context.Context) error {
	for name, value := range map[string]string{
		"server-url": r.server.URL, "cacerts": string(certificatePEM(r.server)), "agent-tls-mode": "strict",
	} {
		setting := object(schema.GroupVersionKind{Group: managementKind().Group, Version: "v3", Kind: "Setting"}, "", name)
		setting.Object["value"] = value
		if err := r.client.Create(ctx, setting); err != nil {
			return fmt.Errorf("creating setting %s: %w", name, err)
		}
	}
	return nil
}

// derive makes the v3 Cluster of a v1 Cluster, as Rancher's provisioning does: it copies labels,
// annotations and description.
func (r *Rancher) derive(ctx context.Context, v1 *unstructured.Unstructured) error {
	name := "c-m-" + strings.ReplaceAll(string(v1.GetUID()), "-", "")[:8]
	v3 := object(managementKind(), "", name)
	v3.SetLabels(v1.GetLabels())
	annotations := maps.Clone(v1.GetAnnotations())
	annotations["provisioning.cattle.io/administrated"] = "true"
	v3.SetAnnotations(annotations)
	v3.Object["spec"] = map[string]any{"displayName": v1.GetName(), "description": annotations["field.cattle.io/description"]}
	if err := r.client.Create(ctx, v3); err != nil {
		return fmt.Errorf("creating the v3 Cluster of %s: %w", v1.GetName(), err)
	}
	patch := fmt.Appendf(nil, `{"status":{"clusterName":%q}}`, name)
	if err := r.client.Status().Patch(ctx, v1, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("naming the v3 Cluster of %s: %w", v1.GetName(), err)
	}
	return nil
}

// register makes the registration token of a v3 Cluster, in the way of Rancher 2.15: the token is in a Secret.
func (r *Rancher) register(ctx context.Context, v3 *unstructured.Unstructured) error {
	name := v3.GetName()
	r.mu.Lock()
	r.byOwner[v3.GetLabels()[ownerLabel]] = name
	r.mu.Unlock()
	if r.prepares == 0 {
		if err := r.prepare(ctx, name); err != nil {
			return err
		}
	}
	token := object(schema.GroupVersionKind{Group: managementKind().Group, Version: "v3", Kind: "ClusterRegistrationToken"}, name, "default-token")
	token.Object["spec"] = map[string]any{"clusterName": name}
	token.Object["status"] = map[string]any{
		"tokenSecretName": "crt-token-default-token",
		"manifestUrl":     r.server.URL + "/v3/import/{token}_" + name + ".yaml",
	}
	for _, made := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "crt-token-default-token"},
			Data:       map[string][]byte{"token": []byte("token-of-" + name)},
		},
		token,
	} {
		if err := r.client.Create(ctx, made); err != nil {
			return fmt.Errorf("registering %s: %w", name, err)
		}
	}
	if r.prepares > 0 {
		time.AfterFunc(r.prepares, func() { r.queue <- func(ctx context.Context) error { return r.prepare(ctx, name) } })
	}
	return nil
}

// prepare reports that an agent may register.
func (r *Rancher) prepare(ctx context.Context, name string) error {
	prepared := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"conditions":[{"type":"ServiceAccountSecretsMigrated","status":"True"}]}}`))
	if err := r.client.Status().Patch(ctx, object(managementKind(), "", name), prepared); err != nil {
		return fmt.Errorf("preparing %s: %w", name, err)
	}
	return nil
}

func (r *Rancher) reportConnected(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Connected","status":"True","lastUpdateTime":%[1]q},{"type":"Ready","status":"True","lastUpdateTime":%[1]q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	if err := r.client.Status().Patch(ctx, object(managementKind(), "", name), client.RawPatch("application/merge-patch+json", patch)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reporting %s as connected: %w", name, err)
	}
	return nil
}

func object(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func managementKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "Cluster"}
}

func provisioningKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster"}
}
