package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/capi"
	"github.com/archelon-io/archelon/test/capi/gateway"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// capiPatience is how long Cluster API may take for a step. It asks an API server that was not there again after half a
// minute, and calls one that went away unavailable after most of a minute.
var capiPatience = 3 * patience

// capiWorld is a stage with the real controllers of Cluster API.
type capiWorld struct {
	*fixture

	controllers *capi.Controllers
	program     string // kubectl
	kubeconfig  string
}

// provisioned is a workload cluster that Cluster API makes.
type provisioned struct {
	key     types.NamespacedName
	cluster *clusterv1.Cluster
	gateway *gateway.Gateway
}

func newCAPIWorld(ctx context.Context, name string) *capiWorld {
	GinkgoHelper()
	s, err := stage.Start(ctx, stage.Options{Name: name, Audit: true, Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr }})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
	controllers, err := capi.Start(ctx, capi.Options{Cluster: s.Management, Out: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(controllers.Stop()).To(Succeed()) })

	programs, err := env.Assets()
	Expect(err).NotTo(HaveOccurred())
	raw, err := s.Management.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	w := &capiWorld{
		fixture: without(s), controllers: controllers,
		program: filepath.Join(programs, "kubectl"), kubeconfig: filepath.Join(GinkgoT().TempDir(), "kubeconfig"),
	}
	Expect(os.WriteFile(w.kubeconfig, raw, 0o600)).To(Succeed())
	return w
}

// kubectl runs the program itself, as people do.
func (w *capiWorld) kubectl(ctx context.Context, namespace string, stdin []byte, args ...string) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, w.program, append([]string{"--kubeconfig=" + w.kubeconfig, "--namespace=" + namespace}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
}

// apply applies a manifest of package capi.
func (w *capiWorld) apply(ctx context.Context, namespace string, manifest []byte, err error) {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	w.kubectl(ctx, namespace, manifest, "apply", "--filename=-")
}

// prepare opens the gateway of a workload cluster, which does not exist yet.
func (w *capiWorld) prepare(ctx context.Context, namespace, name string) *provisioned {
	GinkgoHelper()
	p := &provisioned{key: types.NamespacedName{Namespace: namespace, Name: name}, cluster: &clusterv1.Cluster{}}
	p.cluster.Namespace, p.cluster.Name = namespace, name
	var err error
	p.gateway, err = gateway.Start(ctx, gateway.Options{Cluster: p.key, Management: w.Client, APIServer: w.controllers.APIServer})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		w.Rancher.RemoveWorkload(p.key.String())
		Expect(p.gateway.Stop()).To(Succeed())
	})
	return p
}

// connect has Rancher's agent played in the workload cluster as soon as there is one.
func (w *capiWorld) connect(ctx context.Context, p *provisioned) {
	GinkgoHelper()
	w.connectWithin(ctx, p, capiPatience)
}

func (w *capiWorld) connectWithin(ctx context.Context, p *provisioned, timeout time.Duration) {
	GinkgoHelper()
	Eventually(func() error {
		config, err := p.gateway.Config(ctx)
		if err != nil {
			return err
		}
		return w.Rancher.AddWorkload(p.key.String(), config)
	}).WithContext(ctx).WithTimeout(timeout).Should(Succeed())
}

// inside returns a client of the workload cluster.
func (p *provisioned) inside(ctx context.Context) client.Client {
	GinkgoHelper()
	config, err := p.gateway.Config(ctx)
	Expect(err).NotTo(HaveOccurred())
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	// Not all that it serves is to be discovered.
	c, err := client.New(config, client.Options{Scheme: known, Mapper: testrestmapper.TestOnlyStaticRESTMapper(known)})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// state returns the status of one of Cluster API's own conditions.
func (w *capiWorld) state(ctx context.Context, p *provisioned, kind string) func() string {
	return func() string {
		found := &clusterv1.Cluster{}
		if err := w.Client.Get(ctx, p.key, found); err != nil {
			return err.Error()
		}
		if c := conditions.Get(found, kind); c != nil {
			return string(c.Status)
		}
		return "none"
	}
}

// available follows Cluster API's summary, in which the gates count.
func (w *capiWorld) available(ctx context.Context, p *provisioned) func() string {
	return w.state(ctx, p, clusterv1.ClusterAvailableCondition)
}

// imported waits for the import with the patience that Cluster API needs.
func (w *capiWorld) imported(ctx context.Context, p *provisioned) {
	GinkgoHelper()
	Eventually(w.Reason(ctx, p.cluster)).WithTimeout(capiPatience).Should(Equal("True/Imported"))
}

// follow watches a Cluster that need not exist yet, and returns all states of the import's condition that there were.
func (w *capiWorld) follow(ctx context.Context, p *provisioned) func() []string {
	GinkgoHelper()
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	c, err := client.NewWithWatch(w.Management.Config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	watcher, err := c.Watch(context.WithoutCancel(ctx), &clusterv1.ClusterList{}, client.InNamespace(p.key.Namespace))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watcher.Stop)
	var (
		mu   sync.Mutex
		seen []string
	)
	go func() {
		for event := range watcher.ResultChan() {
			if cluster, ok := event.Object.(*clusterv1.Cluster); ok && cluster.Name == p.key.Name {
				mu.Lock()
				seen = append(seen, importing.ReasonOf(cluster))
				mu.Unlock()
			}
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Compact(slices.Clone(seen))
	}
}

// writes returns what the manager has changed in the management cluster, apart from Leases and Events.
func (w *capiWorld) writes() []auditv1.Event {
	GinkgoHelper()
	return slices.DeleteFunc(importing.PerObject(w.Requests()), func(e auditv1.Event) bool {
		return e.Verb == "get" || e.ObjectRef.Resource == "events" || e.ObjectRef.Resource == "subjectaccessreviews" || e.ObjectRef.Resource == "selfsubjectaccessreviews"
	})
}

// creations returns how many Rancher clusters the manager has made.
func (w *capiWorld) creations() int {
	GinkgoHelper()
	count := 0
	for _, e := range w.writes() {
		if e.Verb == "create" && e.ObjectRef.Resource == "clusters" && e.ResponseStatus.Code < 300 {
			count++
		}
	}
	return count
}
