package e2e

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// What the chart grants for a configuration is what the manager asks for in it: no more and no less. A life with
// everything that an import can meet is led under the rights of each configuration; then every rule has to have
// been used, and nothing refused.
var _ = Describe("Rights", Ordered, ContinueOnFailure, func() {
	s := &shards{}
	var reader string
	BeforeAll(func(ctx context.Context) {
		s.start(ctx)
		s.OwnNamespaces = true
		reader = s.metricsReader(ctx)
	})
	for _, strategy := range importing.Strategies() {
		for _, scope := range [][]string{nil, {watch1, watch2}} {
			name := "a central instance"
			if len(scope) > 0 {
				name = "an isolated instance"
			}
			for _, on := range eachAlone() {
				// Every day all features together. What the chart has on by itself, the other scenarios have too.
				everyday := (strategy == "v3") == (len(scope) == 0) && on == everything()
				It(fmt.Sprintf("of %s with %s are all used with %s records, and suffice", name, on.name, strategy), importing.LongUnless(everyday), func(ctx context.Context) {
					life := &fullLife{shards: s, on: on, strategy: strategy, namespaces: scope, reader: reader}
					life.lead(ctx)
				})
			}
		}
	}
})

// features are what brings rights or arguments of its own.
type features struct {
	name           string
	metrics, adopt bool
}

// eachAlone are the features alone and together.
func eachAlone() []features {
	return []features{
		{name: "no feature"}, {name: "metrics", metrics: true}, {name: "the adoption of Turtles' records", adopt: true},
		everything(),
	}
}

func everything() features {
	return features{name: "all features", metrics: true, adopt: true}
}

// values returns those of the chart.
func (f features) values() map[string]any {
	return map[string]any{
		"metrics": map[string]any{"enabled": f.metrics}, "turtles": map[string]any{"adopt": f.adopt}, "admissionPolicy": map[string]any{"enabled": true},
	}
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
	By("a cluster that was imported as the other kind")
	l.begin(ctx, importing.OtherThan(l.strategy))
	moved := l.light(ctx, watch1, "moved", importing.Selected)
	l.expectImported(ctx, moved)
	Expect(l.Manager.Stop()).To(Succeed())
	l.setWorkspace(ctx, moved, "elsewhere")
	Expect(l.Client.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: stage.SystemNamespace, Name: "archelon-leader-election"}})).To(Succeed())
	crashed, taken := l.crashes(ctx), l.ofTurtles(ctx)

	began := metav1.NowMicro()
	l.begin(ctx, l.strategy)
	for _, cluster := range crashed {
		Eventually(l.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	}
	l.Patch(ctx, importing.Current(ctx, l.Client, moved), func(o client.Object) { importing.SetAnnotation(o, "archelon.io/fleet-workspace", "fleet-default") })
	l.expectImported(ctx, append(taken, moved)...)
	for _, record := range l.V3Records(ctx, moved) {
		Eventually(func() string {
			importing.Current(ctx, l.Client, &record)
			return record.Spec.FleetWorkspaceName
		}).Should(Equal("fleet-default"))
	}
	Expect(importing.Current(ctx, l.Client, moved).Annotations).To(HaveKeyWithValue(importing.RecordKey, HavePrefix(importing.OtherThan(l.strategy)+"/")))
	for _, cluster := range taken {
		Eventually(func() []string { return l.Events(ctx, cluster) }).Should(ContainElement("Adopted"))
	}

	cluster := l.settings(ctx)
	By("repairs")
	l.expectRepaired(ctx, l.strategy, cluster)
	l.deletions(ctx, moved, cluster, taken...)
	if l.on.metrics {
		code, _ := l.scrape(ctx, l.reader)
		Expect(code).To(Equal(200))
	}
	if len(l.namespaces) > 0 {
		By("a namespace that is deleted")
		Expect(l.Client.Delete(ctx, importing.NamespaceOf(watch2))).To(Succeed())
		Eventually(l.K(ctx).Get(importing.NamespaceOf(watch2))).WithTimeout(2 * patience).Should(Satisfy(apierrors.IsNotFound))
		Expect(l.Client.Create(ctx, importing.NamespaceOf(watch2))).To(Succeed())
	}

	used := slices.DeleteFunc(append(l.Requests(), l.reviewed()...), func(e auditv1.Event) bool { return e.RequestReceivedTimestamp.Before(&began) })
	for _, e := range used {
		Expect(e.ResponseStatus.Code).NotTo(BeEquivalentTo(403), "%s %s", e.Verb, e.RequestURI)
	}
	Expect(unused(l.granted(ctx), used)).To(BeEmpty(), "rights that nothing asked for")
	Expect(l.Manager.Stop()).To(Succeed())
}

// setWorkspace moves a v3 Rancher cluster to another Fleet workspace, as an administrator does in Rancher.
func (l *fullLife) setWorkspace(ctx context.Context, cluster *clusterv1.Cluster, workspace string) {
	GinkgoHelper()
	for _, record := range l.V3Records(ctx, cluster) {
		l.Patch(ctx, &record, func(client.Object) { record.Spec.FleetWorkspaceName = workspace })
	}
}

// begin starts the manager. It lists what it watches, as with an API server that cannot stream lists.
func (l *fullLife) begin(ctx context.Context, strategy string) {
	GinkgoHelper()
	GinkgoT().Setenv("KUBE_FEATURE_WatchListClient", "false")
	l.startManager(ctx, append(flags("namespace", l.namespaces...), importing.Gate(strategy))...)
}

func (l *fullLife) settings(ctx context.Context) *clusterv1.Cluster {
	GinkgoHelper()
	By("settings, and a change of a label")
	cluster := l.light(ctx, watch2, "plain", importing.Selected, func(c *clusterv1.Cluster) {
		importing.SetAnnotation(c, "archelon.io/fleet-workspace", "fleet-default")
	})
	l.expectImported(ctx, cluster)
	l.Patch(ctx, importing.Current(ctx, l.Client, cluster), func(o client.Object) { o.GetLabels()["team"] = "blue" })
	Eventually(func() string { return l.Look(ctx).Records(l.strategy, cluster)[0].GetLabels()["team"] }).Should(Equal("blue"))
	return cluster
}

func (l *fullLife) deletions(ctx context.Context, moved, cluster *clusterv1.Cluster, more ...*clusterv1.Cluster) {
	GinkgoHelper()
	By("deletions")
	l.Choose(ctx, importing.Current(ctx, l.Client, moved), "false")
	Eventually(l.Reason(ctx, moved)).Should(Equal("False/NotSelected"))
	l.removal(ctx, cluster)
	l.Patch(ctx, importing.Current(ctx, l.Client, cluster), func(o client.Object) { o.SetAnnotations(nil) })
	l.expectImported(ctx, cluster)
	l.remove(ctx, append(more, moved, cluster)...)
}

// removal deletes the record in Rancher while the CAPI cluster cannot be changed. That is tried again and again at the
// same version of the object, and client-go counts the Events that say so in one.
func (l *fullLife) removal(ctx context.Context, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	Expect(l.Client.Create(ctx, obstacle())).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(l.Client.Delete(ctx, obstacle()))).To(Succeed())
	})
	// The API server loads it a moment later.
	Eventually(func() error { return l.Client.Update(ctx, importing.Current(ctx, l.Client, cluster), client.DryRunAll) }).
		Should(MatchError(ContainSubstring("obstacle")))
	Expect(l.Client.Delete(ctx, l.Look(ctx).Records(l.strategy, cluster)[0])).To(Succeed())
	Eventually(func() bool { return l.repeated(ctx, cluster, "RemovedInRancher") }).Should(BeTrue())
	Expect(l.Client.Delete(ctx, obstacle())).To(Succeed())
	Eventually(l.Reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("False/RemovedInRancher"))
}

// repeated reports whether an Event about a CAPI cluster stands for several.
func (l *fullLife) repeated(ctx context.Context, cluster *clusterv1.Cluster, reason string) bool {
	GinkgoHelper()
	list := &corev1.EventList{}
	Expect(l.Client.List(ctx, list, client.InNamespace(cluster.Namespace))).To(Succeed())
	return slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.UID == cluster.UID && e.Reason == reason && e.Series != nil
	})
}

// crashes returns clusters that are being deleted, as a manager leaves them that dies after
// it has written a name ahead.
func (l *fullLife) crashes(ctx context.Context) []*clusterv1.Cluster {
	GinkgoHelper()
	var crashed []*clusterv1.Cluster
	for kind, name := range map[string]string{"v1": "ahead-capi", "v3": "c-zzzzz"} {
		cluster := l.light(ctx, watch1, "ahead-"+kind, func(c *clusterv1.Cluster) {
			c.Finalizers = []string{importing.Finalizer}
			importing.SetAnnotation(c, importing.RecordKey, kind+"/"+name)
		})
		Expect(l.Client.Delete(ctx, cluster)).To(Succeed())
		Expect(l.Client.Delete(ctx, builder.KubeconfigSecret(watch1, cluster.Name, nil))).To(Succeed())
		crashed = append(crashed, cluster)
	}
	return crashed
}

// ofTurtles returns a cluster that Turtles has imported with the strategy of this life, none unless such are adopted.
func (l *fullLife) ofTurtles(ctx context.Context) []*clusterv1.Cluster {
	GinkgoHelper()
	if !l.on.adopt {
		return nil
	}
	cluster := l.light(ctx, watch1, "of-turtles", importing.Selected, func(c *clusterv1.Cluster) { c.Finalizers = []string{builder.TurtlesHold} })
	record := builder.TurtlesV3Record(cluster)
	if l.strategy == "v1" {
		record = builder.TurtlesV1Record(cluster)
	}
	Expect(l.Client.Create(ctx, record)).To(Succeed())
	return []*clusterv1.Cluster{cluster}
}
