package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			everyday := (strategy == "v3") == (len(scope) == 0)
			It("of "+name+" are all used with "+strategy+" records, and suffice", longUnless(everyday), func(ctx context.Context) {
				life := &fullLife{shards: s, strategy: strategy, namespaces: scope, reader: reader}
				life.lead(ctx)
			})
		}
	}
})

// fullLife is one of everything.
type fullLife struct {
	*shards
	strategy   string
	namespaces []string
	reader     string
}

func (l *fullLife) lead(ctx context.Context) {
	GinkgoHelper()
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
	code, _ := l.scrape(ctx, l.reader)
	Expect(code).To(Equal(200))
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
		"fleetaddcluster fleetworkspaces.management.cattle.io",
		// client-go changes an Event that is published again for the same version of an object, after a write that failed for example.
		"patch events.events.k8s.io",
	}, right)
}

// granted returns the rules of all roles that the manager is bound to, by role.
func (l *fullLife) granted(ctx context.Context) map[string][]rbacv1.PolicyRule {
	GinkgoHelper()
	rules := map[string][]rbacv1.PolicyRule{}
	add := func(namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if !slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Namespace == stage.SystemNamespace && s.Name == stage.ServiceAccount
		}) {
			return
		}
		var role client.Object = &rbacv1.ClusterRole{}
		if ref.Kind == "Role" {
			role = &rbacv1.Role{}
		}
		Expect(l.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, role)).To(Succeed())
		switch role := role.(type) {
		case *rbacv1.ClusterRole:
			rules[roleKey(ref.Kind, ref.Name)] = role.Rules
		case *rbacv1.Role:
			rules[roleKey(ref.Kind, ref.Name)] = role.Rules
		}
	}
	everywhere, somewhere := &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}
	Expect(l.Client.List(ctx, everywhere)).To(Succeed())
	for _, binding := range everywhere.Items {
		add("", binding.RoleRef, binding.Subjects)
	}
	Expect(l.Client.List(ctx, somewhere)).To(Succeed())
	for _, binding := range somewhere.Items {
		if binding.RoleRef.Kind == "Role" {
			add(binding.Namespace, binding.RoleRef, binding.Subjects)
		} else {
			add("", binding.RoleRef, binding.Subjects)
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
