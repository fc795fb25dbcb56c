package e2e

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// excuse is a time in which a right is missing because somebody has taken it away.
type excuse struct {
	from, to metav1.MicroTime
	refused  func(auditv1.Event) bool
}

func (e *excuse) covers(event auditv1.Event) bool {
	return e.refused(event) && !event.RequestReceivedTimestamp.Before(&e.from) && !e.to.Before(&event.RequestReceivedTimestamp)
}

// excusing does something that takes rights away, and excuses the requests that are refused for it until it is done.
func (r *releases) excusing(refused func(auditv1.Event) bool, do func()) {
	from := metav1.NowMicro()
	do()
	r.excuses = append(r.excuses, excuse{from: from, to: metav1.NowMicro(), refused: refused})
}

// expectLawful asserts on the audit log that nobody in the namespace of the release was refused anything.
func (r *releases) expectLawful(release helm.Release) {
	GinkgoHelper()
	events, err := r.Management.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	seen := 0
	for _, e := range events {
		if !strings.HasPrefix(e.User.Username, "system:serviceaccount:"+release.Namespace+":") {
			continue
		}
		seen++
		if !slices.ContainsFunc(r.excuses, func(x excuse) bool { return x.covers(e) }) {
			Expect(e.ResponseStatus.Code).NotTo(BeEquivalentTo(403), "%s: %s %s", e.User.Username, e.Verb, e.RequestURI)
		}
	}
	Expect(seen).NotTo(BeZero())
}

// uninstalled asserts on what has been asked for since then that the uninstaller of the release
// has used each of its rights.
func (r *releases) uninstalled(ctx context.Context, release helm.Release, began metav1.MicroTime) {
	GinkgoHelper()
	account := release.Name + ".uninstall"
	// As the chart has them: they are gone by now.
	rendered := release
	rendered.Args = []string{"--kube-version=" + stage.KubeVersion, "--set=uninstall.offline=true"}
	objects, err := r.helm.Template(ctx, rendered)
	Expect(err).NotTo(HaveOccurred())
	events, err := r.Management.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	used := slices.DeleteFunc(events, func(e auditv1.Event) bool {
		return e.User.Username != "system:serviceaccount:"+release.Namespace+":"+account || e.RequestReceivedTimestamp.Before(&began)
	})
	Expect(unused(rulesOf(objects, release.Namespace, account), used)).To(BeEmpty(), "rights that the uninstaller did not ask for")
}

// leftBehind creates a paused CAPI cluster with a v3 Rancher cluster, with all that Archelon puts on both.
func (r *releases) leftBehind(ctx context.Context, namespace, name string) *clusterv1.Cluster {
	GinkgoHelper()
	cluster := r.light(ctx, namespace, name, func(c *clusterv1.Cluster) {
		c.Finalizers = []string{importing.Finalizer}
		c.Spec.Paused = new(true)
		importing.SetAnnotation(c, importing.RecordKey, "v3/"+recordOf(name))
	})
	Expect(r.Client.Create(ctx, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: recordOf(name), Finalizers: []string{importing.Finalizer},
		Labels: map[string]string{importing.OwnedLabel: "", importing.OwnerLabel: name, importing.OwnerNSLabel: namespace, importing.UIDLabel: string(cluster.UID)},
	}})).To(Succeed())
	return cluster
}

func recordOf(name string) string { return "c-" + name }

// forget deletes what leftBehind has made, when nobody holds it any more.
func (r *releases) forget(ctx context.Context, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	record := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: recordOf(cluster.Name)}}
	for _, object := range []client.Object{cluster, record, builder.KubeconfigSecret(cluster.Namespace, cluster.Name, nil)} {
		Expect(client.IgnoreNotFound(r.Client.Delete(ctx, object))).To(Succeed())
		Eventually(r.K(ctx).Get(object)).Should(Satisfy(apierrors.IsNotFound))
	}
}

// withoutBindings has the uninstaller find its RoleBindings missing in the namespaces, and makes each again when it
// has asked what the matter is.
func (r *releases) withoutBindings(ctx context.Context, release helm.Release, namespaces []string, do func()) {
	GinkgoHelper()
	account := "system:serviceaccount:" + release.Namespace + ":" + release.Name + ".uninstall"
	var bindings []*rbacv1.RoleBinding
	for _, namespace := range namespaces {
		binding := importing.Current(ctx, r.Client, &rbacv1.RoleBinding{ObjectMeta: objectMeta(namespace, "archelon-uninstall")})
		Expect(r.Client.Delete(ctx, binding)).To(Succeed())
		binding.ResourceVersion, binding.UID = "", ""
		bindings = append(bindings, binding)
	}
	restored := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(restored)
		for _, binding := range bindings {
			Eventually(func() bool { return r.asked(account, "namespaces", binding.Namespace) }).WithTimeout(4 * patience).Should(BeTrue())
			Expect(r.Client.Create(ctx, binding)).To(Succeed())
		}
	}()
	r.excusing(func(e auditv1.Event) bool {
		return e.User.Username == account && e.Verb == "list" && e.ObjectRef != nil && slices.Contains(namespaces, e.ObjectRef.Namespace)
	}, func() {
		do()
		<-restored
	})
}

// asked reports whether somebody has asked for an object.
func (r *releases) asked(user, resource, name string) bool {
	GinkgoHelper()
	events, err := r.Management.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return slices.ContainsFunc(events, func(e auditv1.Event) bool {
		return e.User.Username == user && e.Verb == "get" && e.ObjectRef != nil && e.ObjectRef.Resource == resource && e.ObjectRef.Name == name
	})
}
