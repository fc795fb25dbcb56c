package hostclaim_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim/baremetal"
	"github.com/archelon-io/archelon/internal/hostclaim/remote"
	"github.com/archelon-io/archelon/internal/workload"
)

// startRemote runs the controller of claims of kind remote, as internal/setup wires it.
func (w *world) startRemote(ctx context.Context) func() {
	GinkgoHelper()
	return w.startRemoteAs(ctx, account)
}

func (w *world) startRemoteAs(ctx context.Context, account string) func() {
	GinkgoHelper()
	described := remote.Controller("host-claim", baremetal.CRD(), nil)
	return w.run(ctx, account, described, func(running context.Context, _ *rest.Config, mgr ctrl.Manager, own cache.Cache) error {
		r := &remote.Reconciler{
			Client: faulty{mgr.GetClient(), &w.faults}, Recorder: mgr.GetEventRecorder(remote.ControllerName),
		}
		return r.SetupWithManager(running, mgr, remote.Options{
			Concurrency: 4, Own: own, Workload: workload.Options{Timeout: 20 * time.Second, DialTimeout: 20 * time.Second},
		})
	})
}

// tenant is a namespace here, and the one in the other cluster that its kubeconfig leads to.
type tenant struct {
	here, there     *world
	namespace, user string
	kubeconfig      []byte
}

// newTenant returns one with a Secret that leads to the other cluster.
func newTenant(ctx context.Context, here, there *world, name string) *tenant {
	GinkgoHelper()
	t := &tenant{here: here, there: there, namespace: "team-" + name, user: "user-" + name}
	t.settle(ctx)
	t.kubeconfig = t.newKubeconfig(ctx)
	t.credentials(ctx, "remote", t.kubeconfig)
	return t
}

// settle creates the namespaces, and has the other cluster grant what is needed there.
func (t *tenant) settle(ctx context.Context) {
	GinkgoHelper()
	t.here.namespace(ctx, t.namespace)
	t.there.namespace(ctx, t.user)
	t.settleThere(ctx)
}

// settleThere grants in the other cluster what the Role that we ship does.
func (t *tenant) settleThere(ctx context.Context) {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(root, "examples", "hostclaim-remote-role.yaml"))
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.Role{}
	Expect(yaml.UnmarshalStrict(raw, role)).To(Succeed())
	role.Namespace = t.user
	t.there.create(
		ctx, role, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: t.user, Name: "archelon"}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.user, Name: "archelon"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: t.user, Name: "archelon"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		},
	)
}

func (t *tenant) newKubeconfig(ctx context.Context) []byte {
	GinkgoHelper()
	who, err := t.there.plane.ServiceAccountConfig(ctx, t.user, "archelon")
	Expect(err).NotTo(HaveOccurred())
	raw, err := t.there.plane.KubeconfigFor(who)
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.Load(raw)
	Expect(err).NotTo(HaveOccurred())
	for _, each := range config.Contexts {
		each.Namespace = t.user
	}
	raw, err = clientcmd.Write(*config)
	Expect(err).NotTo(HaveOccurred())
	return raw
}

// credentials writes a Secret with a kubeconfig.
func (t *tenant) credentials(ctx context.Context, name string, kubeconfig []byte) {
	GinkgoHelper()
	t.secret(ctx, name, map[string][]byte{"kubeconfig": kubeconfig})
}

func (t *tenant) secret(ctx context.Context, name string, data map[string][]byte) {
	GinkgoHelper()
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: name}, Data: data}
	err := t.here.admin.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	before := &corev1.Secret{}
	Expect(t.here.admin.Get(ctx, client.ObjectKeyFromObject(object), before)).To(Succeed())
	after := before.DeepCopy()
	after.Data = data
	Expect(t.here.admin.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
}

// claim creates a source of a spec beside what makes it one.
func (t *tenant) claim(ctx context.Context, name, spec string) {
	GinkgoHelper()
	t.here.claim(ctx, t.namespace, name, "kind: remote\ncredentials: remote\nargs: {real-kind: baremetal, zone: z1}\n"+spec)
}

func (t *tenant) change(ctx context.Context, name string, change func(*metal3v1.HostClaim)) {
	GinkgoHelper()
	before := t.here.getClaim(ctx, t.namespace, name)
	after := before.DeepCopy()
	change(after)
	Expect(t.here.admin.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
}

func (t *tenant) remove(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(t.here.admin.Delete(ctx, unstructuredClaim(t.namespace, name))).To(Succeed())
}

// targets returns the targets of sources of a name.
func (t *tenant) targets(ctx context.Context, name string) []metal3v1.HostClaim {
	GinkgoHelper()
	list := &metal3v1.HostClaimList{}
	Expect(t.there.admin.List(ctx, list, client.InNamespace(t.user))).To(Succeed())
	var found []metal3v1.HostClaim
	for _, each := range list.Items {
		if each.Annotations["hostclaims.metal3.io/origin"] == t.namespace+"/"+name {
			found = append(found, each)
		}
	}
	return found
}

// target returns the one target of a source.
func (t *tenant) target(ctx context.Context, name string) *metal3v1.HostClaim {
	GinkgoHelper()
	found := t.targets(ctx, name)
	Expect(found).To(HaveLen(1))
	return &found[0]
}

// copies returns a function for Eventually: what the copies of Secrets hold, by what they are for.
func (t *tenant) copies(ctx context.Context) func() string {
	return func() string {
		list := &corev1.SecretList{}
		if err := t.there.admin.List(ctx, list, client.InNamespace(t.user), client.HasLabels{"hostclaims.metal3.io/origin"}); err != nil {
			return err.Error()
		}
		var texts []string
		for _, each := range list.Items {
			texts = append(texts, each.Name[strings.LastIndex(each.Name, "-")+1:]+": "+string(each.Data["value"]))
		}
		return strings.Join(texts, ", ")
	}
}

// condition returns a function for Eventually: "status reason: message" of a condition of a source.
func (t *tenant) condition(ctx context.Context, name, kind string) func() string {
	return func() string {
		claim := &metal3v1.HostClaim{}
		if err := t.here.admin.Get(ctx, types.NamespacedName{Namespace: t.namespace, Name: name}, claim); err != nil {
			return string(apierrors.ReasonForError(err))
		}
		found := meta.FindStatusCondition(claim.Status.Conditions, kind)
		if found == nil {
			return "none"
		}
		return strings.TrimSuffix(fmt.Sprintf("%s %s: %s", found.Status, found.Reason, found.Message), ": ")
	}
}

func (t *tenant) synced(ctx context.Context, name string) func() string {
	return t.condition(ctx, name, "RemoteSynced")
}

// nudge has a claim looked at whose server tells of no change.
func (t *tenant) nudge(ctx context.Context, name string) {
	GinkgoHelper()
	t.change(ctx, name, func(c *metal3v1.HostClaim) { c.Labels = map[string]string{"nudge": "true"} })
}

func userData(name string) *corev1.SecretReference { return &corev1.SecretReference{Name: name} }
