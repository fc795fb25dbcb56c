package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/stage"
)

// What the chart grants for a configuration is what the manager asks for in it: no more and no less. A life with everything that an import can meet
// is led under the rights of each configuration; then every rule has to have been used, and nothing refused.
var _ = Describe("Rights", Ordered, ContinueOnFailure, func() {
	s := &shards{}
	var reader string
	BeforeAll(func(ctx context.Context) {
		s.start(ctx)
		s.tenants.none = true
		reader = s.metricsReader(ctx)
	})
	for _, strategy := range strategies() {
		for _, scope := range [][]string{nil, {watch1, watch2}} {
			name := "a central instance"
			if len(scope) > 0 {
				name = "an isolated instance"
			}
			for _, on := range eachAlone() {
				// Every day all features together. What the chart has on by itself, the other scenarios have too.
				everyday := (strategy == "v3") == (len(scope) == 0) && on.webhook && on.metrics
				It(fmt.Sprintf("of %s with %s are all used with %s records, and suffice", name, on.name, strategy), longUnless(everyday), func(ctx context.Context) {
					life := &fullLife{shards: s, on: on, strategy: strategy, namespaces: scope, reader: reader}
					life.lead(ctx)
				})
			}
		}
	}
})

// features are what brings rights of its own.
type features struct {
	name             string
	metrics, webhook bool
}

// eachAlone are the features alone and together.
func eachAlone() []features {
	return []features{
		{"neither metrics nor a webhook", false, false}, {"metrics", true, false}, {"a webhook", false, true}, {"metrics and a webhook", true, true},
	}
}

// values returns those of the chart.
func (f features) values() map[string]any {
	return map[string]any{"metrics": map[string]any{"enabled": f.metrics}, "webhook": map[string]any{"enabled": f.webhook}}
}

// fullLife is one of everything.
type fullLife struct {
	*shards
	on         features
	strategy   string
	namespaces []string
	reader     string
}

func (l *fullLife) lead(ctx context.Context) {
	GinkgoHelper()
	l.Values = l.on.values()
	By("a cluster that was imported with the other strategy")
	l.begin(ctx, otherThan(l.strategy))
	moved := l.light(ctx, watch1, "moved", selected)
	l.expectImported(ctx, moved)
	Expect(l.manager.Stop()).To(Succeed())
	Expect(l.Client.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: stage.SystemNamespace, Name: "archelon-leader-election"}})).To(Succeed())
	crashed := l.crashes(ctx)

	began := metav1.NowMicro()
	l.begin(ctx, l.strategy)
	for _, cluster := range crashed {
		Eventually(l.gone(ctx, cluster)).Should(BeTrue())
	}
	Eventually(func() string { return current(ctx, l.fixture, moved).Annotations[recordKey] }).WithTimeout(2 * patience).Should(HavePrefix(l.strategy + "/"))
	l.expectImported(ctx, moved)

	cluster := l.settings(ctx)
	By("repairs")
	l.expectRepaired(ctx, l.strategy, cluster)
	l.deletions(ctx, moved, cluster)
	if l.on.metrics {
		code, _ := l.scrape(ctx, l.reader)
		Expect(code).To(Equal(200))
	}
	if l.on.webhook {
		l.losesCertificates(ctx)
	}
	if len(l.namespaces) > 0 {
		By("a namespace that is deleted")
		Expect(l.Client.Delete(ctx, namespaceOf(watch2))).To(Succeed())
		Eventually(l.gone(ctx, namespaceOf(watch2))).WithTimeout(2 * patience).Should(BeTrue())
		Expect(l.Client.Create(ctx, namespaceOf(watch2))).To(Succeed())
	}

	used := slices.DeleteFunc(l.requests(), func(e auditv1.Event) bool { return e.RequestReceivedTimestamp.Before(&began) })
	for _, e := range used {
		Expect(e.ResponseStatus.Code).NotTo(BeEquivalentTo(403), "%s %s", e.Verb, e.RequestURI)
	}
	Expect(unused(l.granted(ctx), used)).To(BeEmpty(), "rights that nothing asked for")
	Expect(l.manager.Stop()).To(Succeed())
}

// begin starts the manager. It lists what it watches, as with an API server that cannot stream lists.
func (l *fullLife) begin(ctx context.Context, strategy string) {
	GinkgoHelper()
	GinkgoT().Setenv("KUBE_FEATURE_WatchListClient", "false")
	l.startManager(ctx, append(flags("namespace", l.namespaces...), gate(strategy))...)
}

func (l *fullLife) settings(ctx context.Context) *clusterv1.Cluster {
	GinkgoHelper()
	By("settings, and a change of a label")
	cluster := l.light(ctx, watch2, "plain", selected, func(c *clusterv1.Cluster) { setAnnotation(c, "archelon.io/fleet-workspace", "fleet-default") })
	l.expectImported(ctx, cluster)
	l.patch(ctx, current(ctx, l.fixture, cluster), func(o client.Object) { o.GetLabels()["team"] = "blue" })
	Eventually(func() string { return l.look(ctx).records(l.strategy, cluster)[0].GetLabels()["team"] }).Should(Equal("blue"))
	return cluster
}

func (l *fullLife) deletions(ctx context.Context, moved, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	By("deletions")
	l.choose(ctx, current(ctx, l.fixture, moved), "false")
	Eventually(l.reason(ctx, moved)).Should(Equal("False/NotSelected"))
	Expect(l.Client.Delete(ctx, l.look(ctx).records(l.strategy, cluster)[0])).To(Succeed())
	Eventually(l.reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
	l.patch(ctx, current(ctx, l.fixture, cluster), func(o client.Object) { o.SetAnnotations(nil) })
	l.expectImported(ctx, cluster)
	l.remove(ctx, moved, cluster)
}

// losesCertificates has the webhook judge, loses the Secret of its certificates, and has it judge with new ones.
func (l *fullLife) losesCertificates(ctx context.Context) {
	GinkgoHelper()
	By("certificates of the webhook that are lost")
	wrong := builder.Cluster(watch1, "wrong")
	wrong.Labels = map[string]string{importLabel: "maybe"}
	judged := func() error { return l.Client.Create(ctx, wrong.DeepCopy(), client.DryRunAll) }
	Eventually(judged).Should(MatchError(ContainSubstring(`set it to "true"`)))
	secret := current(ctx, l.fixture, &corev1.Secret{ObjectMeta: objectMeta(stage.SystemNamespace, "archelon-webhook")})
	lost := secret.Data["tls.crt"]
	Expect(l.Client.Delete(ctx, secret)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(l.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		g.Expect(secret.Data["tls.crt"]).NotTo(Or(BeEmpty(), Equal(lost)))
		g.Expect(judged()).To(MatchError(ContainSubstring(`set it to "true"`)))
	}).Should(Succeed())
}

// crashes returns clusters that are being deleted, as a manager leaves them that dies after it has written a name ahead.
func (l *fullLife) crashes(ctx context.Context) []*clusterv1.Cluster {
	GinkgoHelper()
	var crashed []*clusterv1.Cluster
	for kind, name := range map[string]string{"v1": "ahead-capi", "v3": "c-zzzzz"} {
		cluster := l.light(ctx, watch1, "ahead-"+kind, func(c *clusterv1.Cluster) {
			c.Finalizers = []string{finalizer}
			setAnnotation(c, recordKey, kind+"/"+name)
		})
		Expect(l.Client.Delete(ctx, cluster)).To(Succeed())
		Expect(l.Client.Delete(ctx, builder.KubeconfigSecret(watch1, cluster.Name, nil))).To(Succeed())
		crashed = append(crashed, cluster)
	}
	return crashed
}

// inNoLife are rights that this scenario cannot have used.
func inNoLife(right string) bool {
	return slices.Contains([]string{
		// Rancher's webhook asks whether whoever makes a record with a workspace has it.
		"fleetaddcluster fleetworkspaces.management.cattle.io", "fleetworkspaces.management.cattle.io fleet-default",
		// client-go changes an Event that is published again for the same version of an object, after a write that failed for example.
		"patch events.events.k8s.io",
	}, right)
}

// granted returns the rules of all roles that the manager is bound to, by role.
func (l *fullLife) granted(ctx context.Context) map[string][]rbacv1.PolicyRule {
	GinkgoHelper()
	var objects []unstructured.Unstructured
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind + "List"))
		Expect(l.Client.List(ctx, list)).To(Succeed())
		objects = append(objects, list.Items...)
	}
	return rulesOf(objects, stage.SystemNamespace, stage.ServiceAccount)
}

// rulesOf returns the rules of those roles among the objects that a ServiceAccount is bound to, by role.
func rulesOf(objects []unstructured.Unstructured, namespace, account string) map[string][]rbacv1.PolicyRule {
	GinkgoHelper()
	find := func(kind, namespace, name string) []rbacv1.PolicyRule {
		GinkgoHelper()
		for i := range objects {
			if o := &objects[i]; o.GetKind() == kind && o.GetName() == name && (kind == "ClusterRole" || o.GetNamespace() == namespace) {
				role := &rbacv1.ClusterRole{} // A Role has no fields that it has not.
				Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role)).To(Succeed())
				return role.Rules
			}
		}
		Fail(roleKey(kind, name) + " does not exist")
		return nil
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for i := range objects {
		if kind := objects[i].GetKind(); kind != "ClusterRoleBinding" && kind != "RoleBinding" {
			continue
		}
		binding := &rbacv1.RoleBinding{} // A ClusterRoleBinding has the same fields.
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, binding)).To(Succeed())
		if slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Namespace == namespace && s.Name == account }) {
			ref := binding.RoleRef
			rules[roleKey(ref.Kind, ref.Name)] = find(ref.Kind, binding.Namespace, ref.Name)
		}
	}
	Expect(rules).NotTo(BeEmpty())
	return rules
}

func roleKey(kind, name string) string { return fmt.Sprintf("%s %q", kind, name) }

// allowedBy is how the API server says in its audit log which role allowed a request.
var allowedBy = regexp.MustCompile(`^RBAC: allowed by \S+ "[^"]+" of ((?:Cluster)?Role "[^"]+") to `)

// unused returns what the rules grant and no request asked for, as "role: verb resource.group". Each verb has to be used for each resource, and each
// name with some verb.
func unused(granted map[string][]rbacv1.PolicyRule, requests []auditv1.Event) []string {
	did := map[string]bool{}
	for _, e := range requests {
		role := allowedBy.FindStringSubmatch(e.Annotations["authorization.k8s.io/reason"])
		if e.ObjectRef == nil || role == nil {
			continue
		}
		resource := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			resource += "/" + e.ObjectRef.Subresource
		}
		resource += "." + e.ObjectRef.APIGroup
		did[role[1]+": "+e.Verb+" "+resource] = true
		if e.Verb == "patch" && e.ResponseStatus.Code == http.StatusCreated {
			did[role[1]+": create "+resource] = true // An apply that creates needs both rights; the log has the first.
		}
		did[role[1]+": "+resource+" "+e.ObjectRef.Name] = true
	}
	var idle []string
	for role, rules := range granted {
		for _, right := range rights(rules) {
			if !did[role+": "+right] && !inNoLife(right) {
				idle = append(idle, role+": "+right)
			}
		}
	}
	return idle
}

// rights takes rules apart.
func rights(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, verb+" "+resource+"."+group)
				}
				for _, name := range rule.ResourceNames {
					all = append(all, resource+"."+group+" "+name)
				}
			}
		}
	}
	return all
}
