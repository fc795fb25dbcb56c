package identity_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/oracle/oci-go-sdk/v65/common"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/identity/translation"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	system  = "archelon-system"
	account = "archelon"
	// The names of the proposal's template.
	tenant, vault, identityName, secretName = "test", "secret-namespace", "test-identity", "user-credentials"
	other                                   = "other"
)

// log collects what the controller prints, at every verbosity.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// world is a management cluster and the controller alone.
type world struct {
	plane    *env.ControlPlane
	admin    client.Client
	printed  *log
	resolver *identity.Resolver
	notified sync.Map
	key      *rsa.PrivateKey
	// translate has cloud credentials translated as well.
	translate *translation.Policy
	// hosts are those that clusters may have OCI asked at, and asks is what asks OCI about clusters, nil for nothing.
	hosts []string
	asks  *identity.Verifier
	// fault fails requests of the controller that are not from a cache.
	fault func(verb string, object client.Object) error
	mu    sync.Mutex
}

// capociCRDs returns CRDs of CAPOCI, without names those that the controller needs.
func capociCRDs(names ...string) []*apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	crds, err := env.CAPOCICRDs(names...)
	Expect(err).NotTo(HaveOccurred())
	return crds
}

func readCRD(path string) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	raw, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.UnmarshalStrict(raw, crd)).To(Succeed())
	crd.Spec.Conversion = nil
	return crd
}

func newScheme() *runtime.Scheme {
	GinkgoHelper()
	s := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(s)).To(Succeed())
	Expect(infrav1.AddToScheme(s)).To(Succeed())
	return s
}

func newWorld(ctx context.Context, name string, crds []*apiextensionsv1.CustomResourceDefinition) *world {
	GinkgoHelper()
	plane, err := env.Start(ctx, env.Options{Name: name, CRDs: crds, Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	w := &world{plane: plane, printed: &log{}}
	w.admin, err = client.New(plane.Config, client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
	w.key, err = rsa.GenerateKey(rand.Reader, 2048)
	Expect(err).NotTo(HaveOccurred())
	for _, namespace := range []string{system, tenant, vault, other} {
		w.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	w.grant(ctx)
	return w
}

func (w *world) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(w.admin.Create(ctx, object)).To(Succeed())
}

// grant gives the ServiceAccount of the controller the roles that are made of its markers, and nothing else: Secrets in
// the named namespaces alone.
func (w *world) grant(ctx context.Context) {
	GinkgoHelper()
	w.create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: account}})
	w.bind(ctx, "identity")
	w.bind(ctx, "oci-secrets", vault, tenant)
}

// bind gives it one of these roles: in some namespaces, or without any in the whole cluster.
func (w *world) bind(ctx context.Context, file string, namespaces ...string) {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "rbac", file+"_role.yaml"))
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	Expect(yaml.Unmarshal(raw, role)).To(Succeed())
	w.create(ctx, role)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: account}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	meta := metav1.ObjectMeta{Name: account + "-" + file}
	if len(namespaces) == 0 {
		w.create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
	}
	for _, namespace := range namespaces {
		meta.Namespace = namespace
		w.create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
	}
}

// principal asks for the principal of a cluster as a controller of CAPOCI would, with the permissions of an
// administrator: Archelon hands out none, and may not read what that takes.
func (w *world) principal(ctx context.Context, cluster identity.User) (common.ConfigurationProvider, error) {
	resolver := oci.NewResolver(oci.LiveReaders(live{w.admin, w}), oci.Options{
		Policy: w.resolver.Scope.Policy, Providers: oci.NewProviders(""),
	})
	return resolver.ConfigurationProvider(ctx, cluster.GetNamespace(), cluster.IdentityRef())
}

// reasonOf returns why a principal is refused, empty if that is not known.
func reasonOf(err error) string {
	if refused, ok := errors.AsType[*oci.RefusedError](err); ok {
		return refused.Reason
	}
	return ""
}

// install creates the admission policies of OCI identities, as the chart renders them, and returns them.
func (w *world) install(ctx context.Context, values map[string]any) []unstructured.Unstructured {
	GinkgoHelper()
	charts, err := helm.New(nil)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(charts.Close)
	rendered, err := charts.Template(ctx, helm.Release{
		Name: "archelon", Namespace: system, Chart: filepath.Join(stage.Root(), "charts", "archelon"), Values: map[string]any{
			"features": map[string]any{"oci-cluster-identity": map[string]any{"enabled": true}}, "identity": values,
		},
		Args: []string{"--kube-version=" + stage.KubeVersion, "--no-hooks"},
	})
	Expect(err).NotTo(HaveOccurred())
	var policies []unstructured.Unstructured
	for _, object := range rendered {
		group := object.GroupVersionKind().Group
		if group == "admissionregistration.k8s.io" && object.GetName() != system+".archelon-admission" {
			policies = append(policies, object)
			w.create(ctx, object.DeepCopy())
		}
	}
	return policies
}

// live is a client whose requests a spec can have fail.
type live struct {
	client.Client

	world *world
}

// Get implements client.Reader.
func (l live) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	l.world.mu.Lock()
	fault := l.world.fault
	l.world.mu.Unlock()
	if fault != nil {
		if err := fault("get", object); err != nil {
			return err
		}
	}
	return l.Client.Get(ctx, key, object, opts...)
}

func (w *world) failing(fault func(verb string, object client.Object) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

// start runs the controller until the returned function is called, as setup wires it.
func (w *world) start(ctx context.Context, scope identity.Scope, verifier *identity.Verifier) func() {
	GinkgoHelper()
	account, err := w.plane.ServiceAccountConfig(ctx, system, account)
	Expect(err).NotTo(HaveOccurred())
	s := newScheme()
	shared, own := cache.Options{DefaultNamespaces: scope.Shard.Namespaces()}, cache.Options{}
	shared.ByObject, own.ByObject = map[client.Object]cache.ByObject{}, map[client.Object]cache.ByObject{}
	for _, watch := range scope.Watches() {
		limits := shared
		if watch.Own {
			limits = own
		}
		limits.ByObject[watch.Object] = watch.By
	}
	mgr, err := ctrl.NewManager(account, ctrl.Options{
		Scheme: s, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Cache: shared,
		Controller: config.Controller{SkipNameValidation: new(true)},
		Logger:     zap.New(zap.WriteTo(w.printed), zap.UseDevMode(true)),
	})
	Expect(err).NotTo(HaveOccurred())
	own.Scheme, own.Mapper, own.HTTPClient = s, mgr.GetRESTMapper(), mgr.GetHTTPClient()
	metadata, err := cache.New(account, own)
	Expect(err).NotTo(HaveOccurred())
	Expect(mgr.Add(metadata)).To(Succeed())
	direct, err := client.New(
		account, client.Options{Scheme: s, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()},
	)
	Expect(err).NotTo(HaveOccurred())
	w.resolver = &identity.Resolver{
		Cached: identity.Readers{Objects: mgr.GetCache(), Metadata: metadata}, Live: live{direct, w},
		Scope: scope,
	}
	if w.asks != nil {
		w.resolver.Checker = &identity.Checker{Verifier: w.asks, Resolver: w.resolver, Hosts: w.hosts}
	}
	r := &identity.Reconciler{
		Client: mgr.GetClient(), Resolver: w.resolver, Verifier: verifier, Checker: w.resolver.Checker,
		Recorder: mgr.GetEventRecorder(identity.ControllerName),
		Notify:   func(kind string, name types.NamespacedName) { w.notified.Store(kind+" "+name.String(), true) },
	}
	Expect(r.SetupWithManager(ctx, mgr, identity.Options{Concurrency: 2, Metadata: metadata})).To(Succeed())
	if w.translate != nil {
		w.addTranslation(mgr, account, live{direct, w}, scope.Shard)
	}
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	var once sync.Once
	end := func() {
		once.Do(func() {
			stop()
			Eventually(ended).Should(Receive(BeNil()), func() string { return w.printed.String() })
		})
	}
	DeferCleanup(end)
	Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
	return end
}

func (w *world) secretData(key *rsa.PrivateKey) map[string][]byte {
	GinkgoHelper()
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	Expect(err).NotTo(HaveOccurred())
	sum := md5.Sum(der)
	pairs := make([]string, len(sum))
	for i := range sum {
		pairs[i] = fmt.Sprintf("%02x", sum[i])
	}
	return map[string][]byte{
		"tenancy": []byte("ocid1.tenancy.oc1..aaaatenancy"), "user": []byte("ocid1.user.oc1..aaaauser"),
		"fingerprint": []byte(strings.Join(pairs, ":")),
		"key":         pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}
}

// condition returns a function for Eventually: "status reason: message" of a condition of the identity.
func (w *world) condition(ctx context.Context, name, conditionType string) func() string {
	return w.conditionIn(ctx, tenant, name, conditionType)
}

// conditionIn is the same for an identity of another namespace than the tenant's.
func (w *world) conditionIn(ctx context.Context, namespace, name, conditionType string) func() string {
	return func() string {
		found := &identityv1.OCIClusterIdentity{}
		if err := w.admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, found); err != nil {
			return err.Error()
		}
		condition := found.Condition(conditionType)
		if condition == nil {
			return "none"
		}
		text := string(condition.Status) + " " + condition.Reason
		if condition.Message != "" {
			text += ": " + condition.Message
		}
		return text
	}
}
