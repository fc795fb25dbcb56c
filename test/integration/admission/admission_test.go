package admission_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
)

const (
	central, isolated, blue, green = "archelon-system", "team-system", "blue-system", "green-system"
	tenant, team, excluded         = "tenant", "team", "excluded"
)

const labelText = `metadata.labels[cluster-api.cattle.io/rancher-auto-import]: set it to "true" to import, or to "false" to un-import`

// rule is what the policy says about a key. All of the texts are compared with those of the
// condition beside the importer.
type rule struct {
	key string
	// set sets the key, or removes it.
	set func(key string, value ...string) func(*clusterv1.Cluster)
	// good may be written, bad and other may not.
	good       []string
	bad, other string
	text       string
}

func rules() []rule {
	return []rule{
		{
			key: importLabel, set: labelled, good: []string{"true", "false", "1", "F"}, bad: "yes", other: "",
			text: labelText,
		},
		{
			key: "archelon.io/agent-env", set: annotated, good: []string{"", "A: b", "A: " + strings.Repeat("x", 8<<10-3), "[no map]"},
			bad: strings.Repeat("s3cret", 1366), other: strings.Repeat("ä", 4<<10) + "a",
			text: "metadata.annotations[archelon.io/agent-env]: it must have at most 8 KiB",
		},
		{
			key: "archelon.io/agent-delivery", set: annotated, good: []string{"", "manual"}, bad: "by-hand", other: "Manual",
			text: `metadata.annotations[archelon.io/agent-delivery]: it must be "manual"`,
		},
		{
			key: "archelon.io/display-name", set: annotated, good: []string{"", "prod", strings.Repeat("a", 63)}, bad: "Prod", other: strings.Repeat("a", 64),
			text: "metadata.annotations[archelon.io/display-name]: it must be a name that Rancher accepts for a cluster: at most 63 lower case letters, digits and dashes, with no dash at either end",
		},
		{
			key: "archelon.io/early-import", set: annotated, good: []string{"", "true", "F"}, bad: "soon", other: "yes",
			text: `metadata.annotations[archelon.io/early-import]: it must be "true" or "false"`,
		},
		{
			key: "archelon.io/external-fleet", set: annotated, good: []string{"", "true", "0"}, bad: "yes", other: "maybe",
			text: `metadata.annotations[archelon.io/external-fleet]: it must be "true" or "false"`,
		},
		{
			key: "archelon.io/fleet-workspace", set: annotated, good: []string{"", "fleet-default"}, bad: "a/b", other: "-",
			text: "metadata.annotations[archelon.io/fleet-workspace]: it must be the name of a Fleet workspace",
		},
		{
			key: "archelon.io/import-management-cluster", set: annotated, good: []string{"", "t", "FALSE"}, bad: "2", other: "tRUE",
			text: `metadata.annotations[archelon.io/import-management-cluster]: it must be "true" or "false"`,
		},
		{
			key: "archelon.io/imported", set: annotated, good: []string{"", "false", "1"}, bad: "before", other: "no",
			text: `metadata.annotations[archelon.io/imported]: it must be "true" or "false"`,
		},
		{
			key: "archelon.io/managed-by", set: annotated, good: []string{"", "archelon", "rancher-turtles"}, bad: "me", other: "turtles",
			text: `metadata.annotations[archelon.io/managed-by]: it must be "archelon" or "rancher-turtles"`,
		},
	}
}

// old is the cluster that has had the bad value of a rule since before there was a policy.
func (r rule) old() string { return "old-" + strings.ReplaceAll(r.key, "/", ".") }

var _ = Describe("The admission policy", Ordered, func() {
	var w *world
	var rendered []unstructured.Unstructured
	held := func(c *clusterv1.Cluster) { c.Finalizers = []string{"example.com/held"} }

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, tenant, team, excluded)
		for _, r := range rules() {
			Expect(w.admin.Create(ctx, cluster(tenant, r.old(), r.set(r.key, r.bad)))).To(Succeed())
		}
		Expect(w.admin.Create(ctx, cluster(tenant, "going", annotated("archelon.io/managed-by", "me"), held))).To(Succeed())
		Expect(w.admin.Create(ctx, cluster(tenant, strings.Repeat("a", 64), labelled(importLabel, "true")))).To(Succeed())
		Expect(w.admin.Create(ctx, cluster(tenant, strings.Repeat("b", 64)))).To(Succeed())
		rendered = w.install(ctx, central, map[string]any{"excludedNamespaces": []any{excluded, team}})
		Eventually(func() error { return w.create(ctx, cluster(tenant, "prod", labelled(importLabel, "yes"))) }).
			WithTimeout(patience).Should(refusedBy(central, labelText))
	})

	for _, r := range rules() {
		Describe("about "+r.key, func() {
			It("refuses a new cluster with a bad value, and says what to do", func(ctx SpecContext) {
				err := w.create(ctx, cluster(tenant, "prod", r.set(r.key, r.bad)))
				Expect(err).To(refusedBy(central, r.text))
				Expect(err).NotTo(MatchError(ContainSubstring("s3cret")))
				for _, value := range r.good {
					Expect(w.create(ctx, cluster(tenant, "prod", r.set(r.key, value)))).To(Succeed(), "%.40s", value)
				}
			})

			It("admits changes that leave a bad value as it is, or mend it, and no other bad value", func(ctx SpecContext) {
				Expect(w.change(ctx, r.old(), annotated("example.com/note", "x"))).To(Succeed())
				Expect(w.change(ctx, r.old(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })).To(Succeed())
				Expect(w.change(ctx, r.old(), r.set(r.key, r.other))).To(refusedBy(central, r.text))
				Expect(w.change(ctx, r.old(), r.set(r.key))).To(Succeed())
				for _, value := range r.good {
					Expect(w.change(ctx, r.old(), r.set(r.key, value))).To(Succeed(), "%.40s", value)
				}
			})

			It("admits the status and the deletion of a cluster with a bad value", func(ctx SpecContext) {
				old := &clusterv1.Cluster{}
				Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: tenant, Name: r.old()}, old)).To(Succeed())
				before := old.DeepCopy()
				builder.ControlPlaneUp(old)
				r.set(r.key, r.other)(old) // An API server does not take it from here.
				Expect(w.admin.Status().Patch(ctx, old, client.MergeFrom(before))).To(Succeed())
				Expect(w.admin.Delete(ctx, old, client.DryRunAll)).To(Succeed())
			})
		})
	}

	It("refuses a name that is too long when the import is asked for", func(ctx SpecContext) {
		text := "metadata.name: the name of this Cluster has 64 characters, and Rancher accepts at most 63. Create this Cluster with a shorter " +
			"name, or without label cluster-api.cattle.io/rancher-auto-import"
		selected, before, long := labelled(importLabel, "true"), strings.Repeat("a", 64), strings.Repeat("b", 64)
		Expect(w.create(ctx, cluster(tenant, strings.Repeat("c", 64), selected))).To(refusedBy(central, text))
		Expect(w.create(ctx, cluster(tenant, strings.Repeat("c", 63), selected))).To(Succeed())
		Expect(w.create(ctx, cluster(tenant, strings.Repeat("c", 64)))).To(Succeed())
		Expect(w.create(ctx, cluster(tenant, strings.Repeat("c", 64), selected, annotated("archelon.io/managed-by", "rancher-turtles")))).To(Succeed())
		Expect(w.change(ctx, long, selected)).To(refusedBy(central, text))
		Expect(w.change(ctx, before, annotated("example.com/note", "x"))).To(Succeed())
	})

	It("tells every problem at once", func(ctx SpecContext) {
		Expect(w.create(ctx, cluster(tenant, "prod", labelled(importLabel, "yes"), annotated("archelon.io/managed-by", "me")))).
			To(refusedBy(central, labelText+`; metadata.annotations[archelon.io/managed-by]: it must be "archelon" or "rancher-turtles"`))
	})

	It("judges requests in an older version of the API as well", func(ctx SpecContext) {
		old := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
			"metadata": map[string]any{"namespace": tenant, "name": "prod", "annotations": map[string]any{"archelon.io/managed-by": "me"}},
		}}
		Expect(w.admin.Create(ctx, old, client.DryRunAll)).To(MatchError(ContainSubstring(`it must be "archelon" or "rancher-turtles"`)))
	})

	It("lets a cluster go that is being deleted, whatever is written on it", func(ctx SpecContext) {
		going := cluster(tenant, "going")
		Expect(w.admin.Delete(ctx, going)).To(Succeed())
		Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(going), going)).To(Succeed())
		before := going.DeepCopy()
		going.Finalizers = nil
		annotated("archelon.io/managed-by", "you")(going)
		Expect(w.admin.Patch(ctx, going, client.MergeFrom(before))).To(Succeed())
		Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(going), going)).To(MatchError(apierrors.IsNotFound, "gone"))
	})

	// An API server that gives up because of the cost admits the request.
	It("judges the largest metadata that there can be", func(ctx SpecContext) {
		for _, r := range rules()[1:] {
			for _, unit := range []string{"a", "a-", "ä"} {
				huge := cluster(tenant, "huge", r.set(r.key, strings.Repeat(unit, 255<<10/len(unit))), labelled(importLabel, "true"))
				Expect(w.create(ctx, huge)).To(refusedBy(central, r.text))
			}
		}
		many := cluster(tenant, "many", labelled(importLabel, "yes"))
		for i := range 32 << 10 {
			annotated(fmt.Sprintf("a%06d", i), "")(many)
		}
		Expect(w.create(ctx, many)).To(refusedBy(central, labelText))
	})

	It("is counted by the API server", func(ctx SpecContext) {
		clients, err := kubernetes.NewForConfig(w.config)
		Expect(err).NotTo(HaveOccurred())
		metrics, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(metrics)).To(MatchRegexp(`(?m)^apiserver_validating_admission_policy_check_total\{.*enforcement_action="deny".*policy="archelon-system.archelon-admission"`))
	})

	// Otherwise a tool that compares what it applied with what is there would find a difference for ever.
	It("is as the chart renders it: the API server adds nothing", func(ctx SpecContext) {
		for _, want := range rendered {
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(want.GroupVersionKind())
			Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(&want), live)).To(Succeed())
			Expect(live.Object["spec"]).To(Equal(want.Object["spec"]))
		}
	})

	It("leaves other namespaces to the releases that work there", func(ctx SpecContext) {
		wrong := labelled(importLabel, "yes")
		Expect(w.create(ctx, cluster(excluded, "prod", wrong))).To(Succeed())
		Expect(w.create(ctx, cluster(team, "prod", wrong))).To(Succeed())
		w.install(ctx, isolated, map[string]any{"namespaces": []any{team, excluded}, "excludedNamespaces": []any{excluded}})
		Eventually(func() error { return w.create(ctx, cluster(team, "prod", wrong)) }).
			WithTimeout(patience).Should(refusedBy(isolated, labelText))
		Expect(w.create(ctx, cluster(excluded, "prod", wrong))).To(Succeed())
		Expect(w.create(ctx, cluster(tenant, "prod", wrong))).To(refusedBy(central, labelText))
	})

	It("leaves clusters with another watch filter to other releases", func(ctx SpecContext) {
		for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
			all := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind}}
			Expect(w.admin.DeleteAllOf(ctx, all)).To(Succeed())
		}
		of := func(filter string) *clusterv1.Cluster {
			return cluster(tenant, "prod", labelled(importLabel, "yes"), labelled("cluster.x-k8s.io/watch-filter", filter))
		}
		w.install(ctx, blue, map[string]any{"watchFilter": "blue"})
		w.install(ctx, green, map[string]any{"watchFilter": "green"})
		for filter, release := range map[string]string{"blue": blue, "green": green} {
			Eventually(func() error { return w.create(ctx, of(filter)) }).WithTimeout(patience).Should(refusedBy(release, labelText))
		}
		Eventually(func() error { return w.create(ctx, cluster(tenant, "prod", labelled(importLabel, "yes"))) }).
			WithTimeout(patience).Should(Succeed(), "nobody imports it")
		Expect(w.create(ctx, of("red"))).To(Succeed())
	})
})
