package import_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// unimport is what the specs about un-imports share: a stage whose clean-ups take long, two workload clusters, and in
// each one a CAPI cluster. The namespace selects the first; the second selects itself.
type unimport struct {
	*fixture
	lanes    []importing.Lane
	strategy string

	byNamespace, byItself *clusterv1.Cluster
}

// What was un-imported stays so until the user says otherwise, and then nothing is installed
// before Rancher has cleaned up.
var _ = Describe("Un-import", Ordered, func() {
	u := &unimport{}
	BeforeAll(func(ctx context.Context) {
		u.fixture = newFixture(ctx, stage.Options{Name: "unimport", Rancher: func(o *rancher.Options) {
			o.Logger = GinkgoLogr
			// On a machine with much to do, too, a user allows the import before they are over.
			o.Timings.Cleanup = 10 * time.Second
			o.Timings.NamespaceController = 3 * time.Second
		}})
		u.lanes = []importing.Lane{u.Lane, u.StartLane(ctx, env.Options{Name: "unimport-workload-2", Audit: true})}
	})
	for _, strategy := range importing.Strategies() {
		Describe("of "+strategy+" records", nightlyUnless(strategy == "v3"), Ordered, func() {
			BeforeEach(func(ctx context.Context) {
				u.strategy = strategy
				u.run(ctx, importing.Gate(strategy))
				u.byNamespace = u.ClusterIn(ctx, u.lanes[0], u.Namespace(ctx, map[string]string{importing.ImportLabel: "true"}), "by-namespace")
				u.byItself = u.ClusterIn(ctx, u.lanes[1], u.Namespace(ctx, nil), "by-itself", importing.Selected)
				u.expectReason(ctx, "True/Imported")
			})
			AfterEach(func(ctx context.Context) {
				for _, cluster := range u.both() {
					Expect(u.Client.Delete(ctx, cluster)).To(Succeed())
				}
				Eventually(u.NothingOfRancher(ctx)).Should(BeEmpty())
				for _, l := range u.lanes {
					Eventually(l.Left).WithContext(ctx).Should(BeEmpty())
				}
			})
			It("by a deletion in Rancher lasts, whichever label selects the cluster", Label("long"), u.lasts)
			It("by a deletion in Rancher is over when the annotation is removed", importing.LongUnless(strategy == "v3"), u.isOver)
			It("by label false lasts until the label is true", Label("long"), u.byLabel)
			It("is over only when the namespaces are gone as well", Label("long"), u.waitsForNamespaces)
		})
	}
})

func (u *unimport) both() []*clusterv1.Cluster {
	return []*clusterv1.Cluster{u.byNamespace, u.byItself}
}

func (u *unimport) expectReason(ctx context.Context, want string) {
	GinkgoHelper()
	for _, cluster := range u.both() {
		Eventually(u.Reason(ctx, cluster)).WithTimeout(2*patience).Should(Equal(want), cluster.Name)
	}
}

// deleteInRancher deletes both records in Rancher.
func (u *unimport) deleteInRancher(ctx context.Context) {
	GinkgoHelper()
	for _, cluster := range u.both() {
		records := u.Look(ctx).Records(u.strategy, cluster)
		Expect(records).To(HaveLen(1))
		Expect(u.Client.Delete(ctx, records[0])).To(Succeed())
	}
	u.expectReason(ctx, "False/RemovedInRancher")
	for _, cluster := range u.both() {
		Expect(importing.Current(ctx, u.Client, cluster).Annotations).To(HaveKeyWithValue(importing.ImportedKey, "true"))
	}
}

// expectNoImport asserts that nothing is made, over several resyncs.
func (u *unimport) expectNoImport(ctx context.Context) {
	GinkgoHelper()
	Eventually(u.NothingOfRancher(ctx)).Should(BeEmpty())
	Consistently(u.NothingOfRancher(ctx)).WithTimeout(2 * time.Second).Should(BeEmpty())
}

// restart kills the manager. Its successor looks at everything every half second.
func (u *unimport) restart(ctx context.Context) {
	GinkgoHelper()
	u.Manager.Kill()
	u.run(ctx, importing.Gate(u.strategy), "--sync-period=500ms")
}

func (u *unimport) allow(ctx context.Context) {
	GinkgoHelper()
	for _, cluster := range u.both() {
		u.Patch(ctx, importing.Current(ctx, u.Client, cluster), func(o client.Object) {
			annotations := o.GetAnnotations()
			delete(annotations, importing.ImportedKey)
			o.SetAnnotations(annotations)
		})
	}
}

func (u *unimport) lasts(ctx context.Context) {
	u.deleteInRancher(ctx)
	u.restart(ctx)
	u.expectNoImport(ctx)
	u.expectReason(ctx, "False/RemovedInRancher")

	// A label that comes again says nothing new.
	namespace := importing.Current(ctx, u.Client, importing.NamespaceOf(u.byNamespace.Namespace))
	for _, value := range []string{"false", "1"} {
		u.Choose(ctx, namespace, value)
		u.Choose(ctx, importing.Current(ctx, u.Client, u.byItself), value)
		if value == "false" {
			u.expectReason(ctx, "False/NotSelected")
		}
	}
	u.expectReason(ctx, "False/RemovedInRancher")
	u.expectNoImport(ctx)
}

func (u *unimport) byLabel(ctx context.Context) {
	namespace := importing.Current(ctx, u.Client, importing.NamespaceOf(u.byNamespace.Namespace))
	u.Choose(ctx, namespace, "false")
	u.Choose(ctx, importing.Current(ctx, u.Client, u.byItself), "false")
	u.expectReason(ctx, "False/NotSelected")
	u.restart(ctx)
	u.expectNoImport(ctx)
	for _, cluster := range u.both() {
		Expect(importing.Current(ctx, u.Client, cluster).Annotations).NotTo(HaveKey(importing.ImportedKey))
		Expect(cluster.Annotations).NotTo(HaveKey(importing.RecordKey))
		Expect(cluster.Finalizers).To(BeEmpty())
	}
	u.Choose(ctx, namespace, "true")
	u.Choose(ctx, u.byItself, "true")
	u.expectReason(ctx, "True/Imported")
	u.expectPatience()
}

func (u *unimport) isOver(ctx context.Context) {
	u.deleteInRancher(ctx)
	u.allow(ctx)
	// They wait at the same time, and not for long.
	waited := map[string]bool{}
	Eventually(func() map[string]bool {
		for _, cluster := range u.both() {
			if u.Reason(ctx, cluster)() == "False/WaitingForCleanup" {
				waited[cluster.Name] = true
			}
		}
		return waited
	}).Should(HaveLen(2))
	u.expectReason(ctx, "True/Imported")
	u.expectPatience()
}

func (u *unimport) waitsForNamespaces(ctx context.Context) {
	u.deleteInRancher(ctx)
	left := map[string]bool{}
	Eventually(func() map[string]bool {
		for _, l := range u.lanes { // It may be over in one before it begins in the other.
			if onlyNamespaceLeft(ctx, l) {
				left[l.Name] = true
			}
		}
		return left
	}).WithPolling(20 * time.Millisecond).Should(HaveLen(len(u.lanes)))
	u.allow(ctx)
	u.expectReason(ctx, "True/Imported")
	u.expectPatience()
}

// onlyNamespaceLeft reports whether the clean-up Job has ended and the agent's namespace is still being deleted.
func onlyNamespaceLeft(ctx context.Context, l importing.Lane) bool {
	GinkgoHelper()
	jobs := &batchv1.JobList{}
	Expect(l.Client.List(ctx, jobs)).To(Succeed())
	namespace := &corev1.Namespace{}
	Expect(client.IgnoreNotFound(l.Client.Get(ctx, client.ObjectKey{Name: importing.AgentNamespace}, namespace))).To(Succeed())
	return len(jobs.Items) == 0 && !namespace.DeletionTimestamp.IsZero()
}

// expectPatience asserts that nothing was written to the workload clusters while Rancher cleaned up in them.
func (u *unimport) expectPatience() {
	GinkgoHelper()
	for _, l := range u.lanes {
		events, err := l.Plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		jobs, namespaces := cleanups(events)
		Expect(jobs).NotTo(BeEmpty())
		Expect(namespaces).To(HaveLen(len(jobs)))
		var hasty []string
		later := 0
		for _, event := range events {
			if !strings.HasPrefix(event.UserAgent, "archelon") || readsOnly(event) {
				continue
			}
			at := event.RequestReceivedTimestamp.Time
			for _, s := range append(jobs, namespaces...) {
				if at.After(s.from) && at.Before(s.to) {
					hasty = append(hasty, fmt.Sprintf("%s %s during %s", event.Verb, event.RequestURI, s.what))
				}
			}
			if at.After(namespaces[len(namespaces)-1].to) {
				later++
			}
		}
		Expect(hasty).To(BeEmpty())
		Expect(later).NotTo(BeZero(), "the agent was installed after the clean-up")
	}
}

func readsOnly(event auditv1.Event) bool {
	return event.Verb == "get" || event.Verb == "list" || event.Verb == "watch"
}

// span is a time during which a workload cluster is not to be touched.
type span struct {
	what     string
	from, to time.Time
}

// cleanups returns for how long there was a clean-up Job, and for how long the agent's namespace was terminating. There
// is one at a time of either.
func cleanups(events []auditv1.Event) (jobs, namespaces []span) {
	for _, event := range events {
		if event.ObjectRef == nil || event.ResponseStatus == nil || event.ResponseStatus.Code >= 300 {
			continue
		}
		asked, answered := event.RequestReceivedTimestamp.Time, event.StageTimestamp.Time
		switch object := event.ObjectRef; {
		case object.Resource == "jobs" && event.Verb == "create":
			jobs = append(jobs, span{what: "a clean-up Job", from: answered})
		case object.Resource == "jobs" && event.Verb == "delete" && len(jobs) > 0:
			jobs[len(jobs)-1].to = asked
		case object.Resource != "namespaces" || object.Name != importing.AgentNamespace:
		case event.Verb == "delete":
			namespaces = append(namespaces, span{what: "the end of the namespace", from: answered})
		case object.Subresource == "finalize" && len(namespaces) > 0:
			namespaces[len(namespaces)-1].to = asked
		}
	}
	return jobs, namespaces
}
