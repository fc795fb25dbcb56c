package metal3_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/metal3"
	"github.com/archelon-io/archelon/test/stage"
)

// site is a management cluster with Archelon.
type site struct{ *stage.Stage }

// newSite returns one, with the CRDs of Metal3 and those of the chart.
func newSite(ctx context.Context, name string) *site {
	GinkgoHelper()
	s, err := stage.Start(ctx, stage.Options{Name: name, Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
	crds, err := metal3.CRDs(ctx)
	Expect(err).NotTo(HaveOccurred())
	_, err = envtest.InstallCRDs(s.Management.Config, envtest.CRDInstallOptions{CRDs: crds})
	Expect(err).NotTo(HaveOccurred())
	return &site{s}
}

// operate runs the baremetal-operator.
func (s *site) operate(ctx context.Context) {
	GinkgoHelper()
	operator, err := metal3.Start(ctx, s.Management, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(operator.Stop()).To(Succeed()) })
}

// manage runs the manager, with some more features.
func (s *site) manage(ctx context.Context, features ...string) {
	GinkgoHelper()
	gates := "--feature-gates=host-claim=true"
	for _, each := range features {
		gates += "," + each + "=true"
	}
	m, err := s.StartManager(ctx, manager, GinkgoWriter, gates, "-v=1")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(m.Stop()).To(Succeed())
		Expect(m.Logs()).NotTo(Or(ContainSubstring("DATA RACE"), ContainSubstring("panic:")))
	})
	Eventually(m.Ready).WithContext(ctx).Should(Succeed())
}

func (s *site) namespaces(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(s.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
}

// host creates a host with the credentials of its BMC. Tell says which namespaces may have it.
func (s *site) host(ctx context.Context, namespace, name, kind, tell string) {
	GinkgoHelper()
	Expect(s.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-bmc"},
		StringData: map[string]string{"username": "admin", "password": "of the BMC"},
	})).To(Succeed())
	hardware := fmt.Sprintf(`{"hostname":"%s.example","nics":[{"name":"ens3","mac":"52:54:00:01:00:05","ip":"192.168.133.33"},`+
		`{"name":"ens3","mac":"52:54:00:01:00:05","ip":"fe80::6be8:1f93:7f65:59cf%%ens3"}]}`, name)
	host := &bmov1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"infra-kind": kind},
			Annotations: map[string]string{
				metal3v1.NamespacesKey: tell, "inspect.metal3.io/hardwaredetails": hardware,
				"info.hostclaims.metal3.io/rack": "rack 7",
			},
		},
		Spec: bmov1.BareMetalHostSpec{
			BMC: bmov1.BMCDetails{
				Address: "redfish+http://192.168.222.1:8000/redfish/v1/Systems/" + name, CredentialsName: name + "-bmc",
			},
			BootMACAddress: "52:54:00:01:00:05", InspectionMode: bmov1.InspectionModeDisabled,
		},
	}
	Expect(s.Client.Create(ctx, host)).To(Succeed())
}

func (s *site) getHost(ctx context.Context, namespace, name string) *bmov1.BareMetalHost {
	GinkgoHelper()
	host := &bmov1.BareMetalHost{}
	Expect(s.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, host)).To(Succeed())
	return host
}

// state returns a function for Eventually: the state of a host, its image, who has it, and whether it is powered.
func (s *site) state(ctx context.Context, namespace, name string) func() string {
	return func() string {
		host := &bmov1.BareMetalHost{}
		if err := s.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, host); err != nil {
			return string(apierrors.ReasonForError(err))
		}
		is := host.Status.Provisioning
		parts := []string{string(is.State)}
		if is.Image.URL != "" {
			parts = append(parts, is.Image.URL)
		}
		if ref := host.Spec.ConsumerRef; ref != nil {
			parts = append(parts, "of "+ref.Namespace+"/"+ref.Name)
		}
		if host.Status.ErrorMessage != "" {
			parts = append(parts, host.Status.ErrorMessage)
		}
		return strings.Join(parts, " ")
	}
}

// tenant is somebody with a token for one namespace.
type tenant struct {
	client.Client

	site      *site
	namespace string
}

// tenant returns one who has the role of a file of the examples.
func (s *site) tenant(ctx context.Context, namespace, role string) *tenant {
	GinkgoHelper()
	s.namespaces(ctx, namespace)
	raw, err := os.ReadFile(filepath.Join(stage.Root(), "examples", role))
	Expect(err).NotTo(HaveOccurred())
	may := &rbacv1.Role{}
	Expect(yaml.UnmarshalStrict(raw, may)).To(Succeed())
	may.Namespace = namespace
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "tenant"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: may.Name},
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"}}
	for _, object := range []client.Object{may, account, binding} {
		Expect(s.Client.Create(ctx, object)).To(Succeed())
	}
	t := &tenant{site: s, namespace: namespace}
	t.Client, err = client.New(t.config(ctx), client.Options{Scheme: s.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return t
}

// config has the token of the tenant.
func (t *tenant) config(ctx context.Context) *rest.Config {
	GinkgoHelper()
	config, err := t.site.Management.ServiceAccountConfig(ctx, t.namespace, "tenant")
	Expect(err).NotTo(HaveOccurred())
	return config
}

// apply applies the objects of a file in the namespace of the tenant, as `kubectl apply` does.
func (t *tenant) apply(ctx context.Context, text string) {
	GinkgoHelper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if decoder.Decode(&object.Object) != nil {
			return
		}
		object.SetNamespace(t.namespace)
		Expect(t.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("tenant"))).To(Succeed())
	}
}

func (t *tenant) secret(ctx context.Context, name, value string) {
	GinkgoHelper()
	Expect(t.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: name}, StringData: map[string]string{"value": value},
	})).To(Succeed())
}

func (t *tenant) claim(ctx context.Context, name string) *metal3v1.HostClaim {
	GinkgoHelper()
	claim := &metal3v1.HostClaim{}
	Expect(t.Get(ctx, types.NamespacedName{Namespace: t.namespace, Name: name}, claim)).To(Succeed())
	return claim
}

// condition returns a function for Eventually: "status reason" of a condition of a claim, or that there is none.
func (t *tenant) condition(ctx context.Context, name, kind string) func() string {
	return func() string {
		claim := &metal3v1.HostClaim{}
		if err := t.Get(ctx, types.NamespacedName{Namespace: t.namespace, Name: name}, claim); err != nil {
			return string(apierrors.ReasonForError(err))
		}
		found := meta.FindStatusCondition(claim.Status.Conditions, kind)
		if found == nil {
			return "none"
		}
		return string(found.Status) + " " + found.Reason
	}
}

// ready returns a function for Eventually.
func (t *tenant) ready(ctx context.Context, name string) func() bool {
	return func() bool {
		claim := &metal3v1.HostClaim{}
		return t.Get(ctx, types.NamespacedName{Namespace: t.namespace, Name: name}, claim) == nil && claim.Status.Ready
	}
}

func (t *tenant) remove(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(t.Delete(ctx, &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: name}})).To(Succeed())
}

// change changes a claim.
func (t *tenant) change(ctx context.Context, name string, change func(*metal3v1.HostClaim)) {
	GinkgoHelper()
	before := t.claim(ctx, name)
	after := before.DeepCopy()
	change(after)
	Expect(t.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
}

// secrets returns what the Secrets of a namespace hold under key value, by name.
func (s *site) secrets(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	list := &corev1.SecretList{}
	Expect(s.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	values := map[string]string{}
	for _, each := range list.Items {
		if value, ok := each.Data["value"]; ok {
			values[each.Name] = string(value)
		}
	}
	return values
}
