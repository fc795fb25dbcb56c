package hostclaim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hostclaim/baremetal"
	"github.com/archelon-io/archelon/internal/hostclaim/kinds"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/test/env"
	standin "github.com/archelon-io/archelon/test/standin/host"
)

const (
	system  = "archelon-system"
	account = "archelon"
	root    = "../../.."
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

// world is a management cluster and the controllers of claims alone.
type world struct {
	plane   *env.ControlPlane
	admin   client.Client
	scheme  *runtime.Scheme
	printed *log
	// through is what controllers that are started from now on have their requests go through. It may be nil.
	through func(http.RoundTripper) http.RoundTripper
	faults
	// ends end the controllers. That may be called more than once.
	ends []func()
}

// faults says which writes fail. By default none does.
type faults struct {
	mu    sync.Mutex
	fault func(write string) error
}

func (f *faults) failing(fault func(write string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *faults) failure(write string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault == nil {
		return nil
	}
	return f.fault(write)
}

func newWorld(ctx context.Context, name string) *world {
	GinkgoHelper()
	return newWorldOf(ctx, name, "hostclaim-baremetal")
}

// newWorldOf returns a cluster where the controller has some permissions of the chart. Beside CRDs of others there are
// those for claims.
func newWorldOf(
	ctx context.Context, name, permissions string, others ...*apiextensionsv1.CustomResourceDefinition,
) *world {
	GinkgoHelper()
	crds, err := env.HostClaimCRDs(ctx)
	Expect(err).NotTo(HaveOccurred())
	crds = append(crds, others...)
	plane, err := env.Start(ctx, env.Options{Name: name, CRDs: crds, Audit: true, ControllerManager: len(others) > 0})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	w := &world{plane: plane, printed: &log{}}
	// One that a spec has started anew works for those that follow.
	DeferCleanup(func() {
		for _, end := range w.ends {
			end()
		}
	})
	w.scheme, err = scheme.New()
	Expect(err).NotTo(HaveOccurred())
	w.admin, err = client.New(plane.Config, client.Options{Scheme: w.scheme})
	Expect(err).NotTo(HaveOccurred())
	w.namespace(ctx, system)
	w.grant(ctx, account, permissions)
	return w
}

func (w *world) create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(w.admin.Create(ctx, object)).To(Succeed())
	}
}

func (w *world) namespace(ctx context.Context, name string) {
	GinkgoHelper()
	w.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// grant gives a ServiceAccount of a controller what the chart does.
func (w *world) grant(ctx context.Context, account, permissions string) {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(root, "charts", "archelon", "files", "permissions", permissions+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	var granted struct {
		When               string
		Cluster, Namespace []rbacv1.PolicyRule
	}
	Expect(yaml.UnmarshalStrict(raw, &granted)).To(Succeed())
	Expect(granted.When).To(HavePrefix("host-claim"))
	who := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: account}}
	Expect(client.IgnoreAlreadyExists(w.admin.Create(ctx, who))).To(Succeed())
	w.create(
		ctx,
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: permissions}, Rules: append(granted.Cluster, granted.Namespace...),
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: permissions},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: account}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: permissions},
		},
	)
}

// faulty is a client whose writes a spec can have fail, before they are carried out or after.
type faulty struct {
	client.Client

	faults *faults
}

func (f faulty) write(what string, object client.Object, do func() error) error {
	what += " " + object.GetNamespace() + "/" + object.GetName()
	if err := f.faults.failure("before " + what); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return f.faults.failure("after " + what)
}

// Patch implements client.Writer.
func (f faulty) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return f.write(fmt.Sprintf("patch %T", object), object, func() error { return f.Client.Patch(ctx, object, patch, opts...) })
}

// Create implements client.Writer.
func (f faulty) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	return f.write(fmt.Sprintf("create %T", object), object, func() error { return f.Client.Create(ctx, object, opts...) })
}

// Delete implements client.Writer.
func (f faulty) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	return f.write(fmt.Sprintf("delete %T", object), object, func() error { return f.Client.Delete(ctx, object, opts...) })
}

// Status implements client.StatusClient.
func (f faulty) Status() client.SubResourceWriter { return faultyStatus{f.Client.Status(), f} }

type faultyStatus struct {
	client.SubResourceWriter

	client faulty
}

// Patch implements client.SubResourceWriter.
func (f faultyStatus) Patch(
	ctx context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	return f.client.write(fmt.Sprintf("patch status of %T", object), object, func() error {
		return f.SubResourceWriter.Patch(ctx, object, patch, opts...)
	})
}

// start runs the controller until the returned function is called, as internal/setup wires it.
func (w *world) start(ctx context.Context) func() {
	GinkgoHelper()
	return w.run(ctx, account, baremetal.Controller("host-claim", nil), func(running context.Context, who *rest.Config, mgr ctrl.Manager, own cache.Cache) error {
		w.startKinds(who, mgr)
		return w.addBareMetal(running, mgr, own)
	})
}

func (w *world) addBareMetal(running context.Context, mgr ctrl.Manager, own cache.Cache) error {
	r := &baremetal.Reconciler{Client: faulty{mgr.GetClient(), &w.faults}, Recorder: mgr.GetEventRecorder(baremetal.ControllerName)}
	return r.SetupWithManager(running, mgr, baremetal.Options{Concurrency: 4, Own: own})
}

// run runs a controller as a ServiceAccount, with its caches, until the returned function is called.
func (w *world) run(
	ctx context.Context, account string, described controller.Controller,
	setup func(context.Context, *rest.Config, ctrl.Manager, cache.Cache) error,
) func() {
	GinkgoHelper()
	who, err := w.plane.ServiceAccountConfig(ctx, system, account)
	Expect(err).NotTo(HaveOccurred())
	who.QPS, who.Burst = 500, 1000
	if w.through != nil {
		who.Wrap(w.through)
	}
	shared, own := cache.Options{ByObject: map[client.Object]cache.ByObject{}}, cache.Options{
		ByObject: map[client.Object]cache.ByObject{}, Scheme: w.scheme,
	}
	for _, watch := range described.Watches(shard.Scope{}) {
		if watch.Own {
			own.ByObject[watch.Object] = watch.By
		} else {
			shared.ByObject[watch.Object] = watch.By
		}
	}
	mgr, err := ctrl.NewManager(who, ctrl.Options{
		Scheme: w.scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Cache: shared,
		Controller: config.Controller{SkipNameValidation: new(true)},
		Logger:     zap.New(zap.WriteTo(w.printed), zap.UseDevMode(true)),
	})
	Expect(err).NotTo(HaveOccurred())
	own.Mapper, own.HTTPClient = mgr.GetRESTMapper(), mgr.GetHTTPClient()
	ownCache, err := cache.New(who, own)
	Expect(err).NotTo(HaveOccurred())
	Expect(mgr.Add(ownCache)).To(Succeed())
	running, stop := context.WithCancel(context.Background())
	Expect(setup(running, who, mgr, ownCache)).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	var once sync.Once
	end := func() {
		once.Do(func() {
			stop()
			Eventually(ended).Should(Receive(BeNil()), func() string { return w.printed.String() })
		})
	}
	w.ends = append(w.ends, end)
	Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
	return end
}

// operate runs the stand-in of Metal3's operator.
func (w *world) operate() *standin.Standin {
	GinkgoHelper()
	mgr, err := ctrl.NewManager(w.plane.Config, ctrl.Options{
		Scheme: w.scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	Expect(err).NotTo(HaveOccurred())
	metal3 := standin.New(mgr.GetClient())
	Expect(metal3.SetupWithManager(mgr)).To(Succeed())
	running, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	DeferCleanup(func() {
		end()
		Eventually(ended).Should(Receive(BeNil()))
	})
	return metal3
}

// startKinds runs the controller that names kinds which nobody handles.
func (w *world) startKinds(who *rest.Config, mgr ctrl.Manager) {
	GinkgoHelper()
	options := cache.Options{
		ByObject: map[client.Object]cache.ByObject{}, Scheme: w.scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
	}
	for _, watch := range kinds.Controller("host-claim", baremetal.CRD(), baremetal.Kinds(), nil).Watches(shard.Scope{}) {
		options.ByObject[watch.Object] = watch.By
	}
	own, err := cache.New(who, options)
	Expect(err).NotTo(HaveOccurred())
	Expect(mgr.Add(own)).To(Succeed())
	r := &kinds.Reconciler{Client: faulty{mgr.GetClient(), &w.faults}, Kinds: baremetal.Kinds(), Grace: time.Second}
	Expect(r.SetupWithManager(mgr, own)).To(Succeed())
}

// host creates a host that is free.
func (w *world) host(ctx context.Context, namespace, name string, change func(*bmov1.BareMetalHost)) {
	GinkgoHelper()
	host := &bmov1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"infra-kind": "medium"},
			Annotations: map[string]string{metal3v1.NamespacesKey: "*"},
		},
		Spec: bmov1.BareMetalHostSpec{
			BMC:            bmov1.BMCDetails{Address: "redfish://bmc.example/" + name, CredentialsName: name + "-bmc"},
			BootMACAddress: "52:54:00:01:00:05", Online: true,
		},
	}
	status := bmov1.BareMetalHostStatus{
		OperationalStatus: bmov1.OperationalStatusOK,
		Provisioning:      bmov1.ProvisionStatus{State: bmov1.StateAvailable},
		HardwareDetails: &bmov1.HardwareDetails{
			Hostname: name + ".example", NIC: []bmov1.NIC{{Name: "ens3", MAC: "52:54:00:01:00:05", IP: "192.168.133.33"}},
		},
	}
	host.Status = status
	if change != nil {
		change(host)
	}
	status = host.Status
	w.create(ctx, host)
	// A stand-in of the operator may have begun with it.
	Eventually(func() error {
		host = w.getHost(ctx, namespace, name)
		host.Status = status
		return w.admin.Status().Update(ctx, host)
	}).Should(Succeed())
}

// claim creates a claim from YAML of its spec, as users write it.
func (w *world) claim(ctx context.Context, namespace, name, spec string) {
	GinkgoHelper()
	Expect(w.tryClaim(ctx, namespace, name, spec)).To(Succeed())
}

func (w *world) tryClaim(ctx context.Context, namespace, name, spec string) error {
	GinkgoHelper()
	object := map[string]any{}
	Expect(yaml.Unmarshal([]byte(spec), &object)).To(Succeed())
	claim := unstructuredClaim(namespace, name)
	claim.Object["spec"] = object
	return w.admin.Create(ctx, claim)
}

func (w *world) getClaim(ctx context.Context, namespace, name string) *metal3v1.HostClaim {
	GinkgoHelper()
	claim := &metal3v1.HostClaim{}
	Expect(w.admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, claim)).To(Succeed())
	return claim
}

func (w *world) getHost(ctx context.Context, namespace, name string) *bmov1.BareMetalHost {
	GinkgoHelper()
	host := &bmov1.BareMetalHost{}
	Expect(w.admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, host)).To(Succeed())
	return host
}

// changeHost changes spec and metadata of a host, or its status.
func (w *world) changeHost(ctx context.Context, namespace, name string, change func(*bmov1.BareMetalHost)) {
	GinkgoHelper()
	before := w.getHost(ctx, namespace, name)
	after := before.DeepCopy()
	change(after)
	Expect(w.admin.Patch(ctx, after.DeepCopy(), client.MergeFrom(before))).To(Succeed())
	Expect(w.admin.Status().Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
}

// associated returns a function for Eventually: "status reason: message" of the condition Associated.
func (w *world) associated(ctx context.Context, namespace, name string) func() string {
	return func() string {
		claim := &metal3v1.HostClaim{}
		if err := w.admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, claim); err != nil {
			return err.Error()
		}
		is := meta.FindStatusCondition(claim.Status.Conditions, "Associated")
		twin := meta.FindStatusCondition(claim.Status.Conditions, "AssociateBMH")
		if is == nil || twin == nil || is.Status != twin.Status {
			return "none"
		}
		return strings.TrimSuffix(fmt.Sprintf("%s %s: %s", is.Status, is.Reason, is.Message), ": ")
	}
}

// consumer returns a function for Eventually: "namespace/name" of the claim that a host names.
func (w *world) consumer(ctx context.Context, namespace, name string) func() string {
	return func() string {
		host := &bmov1.BareMetalHost{}
		if err := w.admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, host); err != nil {
			return err.Error()
		}
		if host.Spec.ConsumerRef == nil {
			return ""
		}
		return host.Spec.ConsumerRef.Namespace + "/" + host.Spec.ConsumerRef.Name
	}
}

var errDead = errors.New("this process is dead")
