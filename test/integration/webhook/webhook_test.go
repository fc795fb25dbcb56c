package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/stage"
)

// patience is for steps that take the 10 s which a new CA has to be known, on a slow machine.
const patience = 90 * time.Second

// conditionsOfChart returns the match conditions of the chart.
func conditionsOfChart() []admissionregistrationv1.MatchCondition {
	GinkgoHelper()
	file, err := os.ReadFile(filepath.Join(stage.Root(), "charts", "archelon", "files", "webhook-match-conditions.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var conditions []admissionregistrationv1.MatchCondition
	Expect(yaml.UnmarshalStrict(file, &conditions)).To(Succeed())
	Expect(conditions).NotTo(BeEmpty())
	return conditions
}

var _ = Describe("The admission webhook for CAPI Clusters, with certificates of its own", Ordered, func() {
	var w *world
	var binary string

	BeforeAll(func(ctx SpecContext) {
		binary = build(ctx)
		w = newWorld(ctx)
		w.replicas = []*replica{{account: "replica-a", address: freeAddress(ctx)}, {account: "replica-b", address: freeAddress(ctx)}}
		w.grant(ctx)
		DeferCleanup(w.stop)
		// What was there before the webhook was.
		old := annotated(builder.Cluster(tenant, "old"), "archelon.io/managed-by", "somebody")
		old.Finalizers = []string{"example.com/held"}
		Expect(w.admin.Create(ctx, old)).To(Succeed())
	})

	It("is ready without Rancher, and before there is a configuration", func(ctx SpecContext) {
		for _, r := range w.replicas {
			w.start(ctx, binary, r)
		}
		for _, r := range w.replicas {
			Eventually(r.ready).WithContext(ctx).WithTimeout(patience).Should(Equal(http.StatusOK))
		}
		secret, err := w.secret(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(secret.Data).To(And(HaveLen(4), HaveKey("ca.crt"), HaveKey("ca.key"), HaveKey("tls.crt"), HaveKey("tls.key")))
	})

	It("publishes its CA when the configuration comes, and owns nothing else of it", func(ctx SpecContext) {
		Expect(w.admin.Create(ctx, w.configuration(), client.FieldOwner("helm"))).To(Succeed())
		Eventually(w.settled).WithContext(ctx).WithTimeout(patience).Should(Succeed())
		live := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(w.admin.Get(ctx, client.ObjectKey{Name: configName}, live)).To(Succeed())
		Expect(live.ManagedFields).To(ContainElement(HaveField("Manager", "archelon-webhook")))
		for _, entry := range live.ManagedFields {
			if entry.Manager == "archelon-webhook" {
				Expect(regexp.MustCompile(`"f:[a-zA-Z]+"`).FindAllString(entry.FieldsV1.GetRawString(), -1)).To(HaveEach(BeElementOf(`"f:webhooks"`, `"f:clientConfig"`, `"f:caBundle"`)))
			}
		}
	})

	It("refuses a label with a sentence that says what to do", func(ctx SpecContext) {
		// The API server loads the configuration a moment after it was written.
		var err error
		Eventually(func() error {
			err = w.admin.Create(ctx, labelled(builder.Cluster(tenant, "prod"), "yes"), client.DryRunAll)
			return err
		}).WithTimeout(patience).ShouldNot(Succeed())
		Expect(err).To(MatchError(And(
			ContainSubstring(`Cluster.cluster.x-k8s.io "prod" is invalid`),
			ContainSubstring(`metadata.labels[cluster-api.cattle.io/rancher-auto-import]: Invalid value: "yes": set it to "true" to import or "false" to un-import`),
		)))
		var status apierrors.APIStatus
		Expect(errors.As(err, &status)).To(BeTrue())
		Expect(status.Status().Details.Causes).To(ConsistOf(HaveField("Type", BeEquivalentTo("InvalidImportLabel"))))
	})

	It("refuses an environment without showing it", func(ctx SpecContext) {
		err := w.admin.Create(ctx, annotated(builder.Cluster(tenant, "prod"), "archelon.io/agent-env", "HTTPS_PROXY=http://user:hunter2@proxy"), client.DryRunAll)
		Expect(err).To(MatchError(And(ContainSubstring("metadata.annotations[archelon.io/agent-env]"), ContainSubstring("map of strings"))))
		Expect(err).NotTo(MatchError(ContainSubstring("hunter2")))
	})

	It("refuses it in an older version of the API as well", func(ctx SpecContext) {
		old := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
			"metadata": map[string]any{"namespace": tenant, "name": "prod", "annotations": map[string]any{"archelon.io/managed-by": "me"}},
		}}
		Expect(w.admin.Create(ctx, old, client.DryRunAll)).To(MatchError(ContainSubstring(`it must be "archelon" or "rancher-turtles"`)))
	})

	It("locks nobody out of an object that is older than the rule", func(ctx SpecContext) {
		old := builder.Cluster(tenant, "old")
		w.warnings.take()
		Expect(w.admin.Patch(ctx, old, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"archelon.io/fleet-workspace":"blue"}}}`)))).To(Succeed())
		Expect(w.warnings.take()).To(ContainElement(ContainSubstring("metadata.annotations[archelon.io/managed-by]")))
		Expect(w.admin.Patch(ctx, old, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"archelon.io/managed-by":"another"}}}`)))).
			NotTo(Succeed())
	})

	It("stands in nobody's way who deletes", func(ctx SpecContext) {
		old := builder.Cluster(tenant, "old")
		Expect(w.admin.Delete(ctx, old)).To(Succeed())
		Expect(w.admin.Patch(ctx, old, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null,"annotations":{"archelon.io/managed-by":"x"}}}`)))).To(Succeed())
		Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(old), old)).To(MatchError(apierrors.IsNotFound, "gone"))
	})

	It("is not called for what CAPI does all day", func(ctx SpecContext) {
		cluster := annotated(labelled(builder.Cluster(tenant, "busy"), "true"), "archelon.io/agent-env", "A: b")
		before := w.calls(ctx)
		Expect(w.admin.Create(ctx, cluster)).To(Succeed())
		Expect(w.calls(ctx)).To(Equal(before+2), "each of the two replicas once")

		before = w.calls(ctx)
		change := func(mutate func()) {
			GinkgoHelper()
			held := cluster.DeepCopy()
			mutate()
			Expect(w.admin.Patch(ctx, cluster, client.MergeFrom(held))).To(Succeed())
		}
		change(func() { cluster.Spec.Paused = new(true) })
		change(func() { cluster.Annotations["example.com/note"] = "x" })
		change(func() { cluster.Labels["example.com/team"] = "x" })
		change(func() { cluster.Finalizers = append(cluster.Finalizers, "example.com/held") })
		change(func() { delete(cluster.Annotations, "archelon.io/agent-env") })
		held := cluster.DeepCopy()
		builder.ControlPlaneUp(cluster)
		Expect(w.admin.Status().Patch(ctx, cluster, client.MergeFrom(held))).To(Succeed())
		change(func() { cluster.Finalizers = nil })
		Expect(w.admin.Create(ctx, builder.Cluster(tenant, "plain"))).To(Succeed())
		Expect(w.calls(ctx)).To(Equal(before))
	})

	It("mends a caBundle that was damaged or emptied", func(ctx SpecContext) {
		for _, patch := range []string{
			`[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"Z2FyYmFnZQ=="}]`,
			`[{"op":"remove","path":"/webhooks/1/clientConfig/caBundle"}]`,
		} {
			configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configName}}
			Expect(w.admin.Patch(ctx, configuration, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
			Eventually(w.settled).WithContext(ctx).WithTimeout(patience).Should(Succeed())
		}
	})

	// Both take a new CA, which is published before it is used.
	for _, cause := range []struct {
		what   string
		damage func(ctx context.Context, secret *corev1.Secret) error
	}{
		{"its key is lost", func(ctx context.Context, secret *corev1.Secret) error {
			return w.admin.Patch(ctx, secret, client.RawPatch(types.MergePatchType, []byte(`{"data":{"ca.key":null}}`)))
		}},
		{"the Secret is deleted", func(ctx context.Context, secret *corev1.Secret) error { return w.admin.Delete(ctx, secret) }},
	} {
		It("answers without a gap while the CA changes because "+cause.what, func(ctx SpecContext) {
			before, err := w.secret(ctx)
			Expect(err).NotTo(HaveOccurred())
			Eventually(w.refuses).WithContext(ctx).WithTimeout(patience).Should(Succeed())
			load := w.load(ctx)
			Expect(cause.damage(ctx, before.DeepCopy())).To(Succeed())
			Eventually(func(g Gomega) {
				after, err := w.secret(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(after.Data["ca.key"]).NotTo(Or(BeEmpty(), Equal(before.Data["ca.key"])))
				g.Expect(after.Data["tls.crt"]).NotTo(Or(BeEmpty(), Equal(before.Data["tls.crt"])))
				g.Expect(w.settled(ctx)).To(Succeed())
			}).WithTimeout(patience).Should(Succeed())
			rounds := load.count.Load()
			Eventually(load.count.Load).WithTimeout(patience).Should(BeNumerically(">", rounds+20), "rounds with the new certificate")
			rounds, err = load.stop()
			Expect(err).NotTo(HaveOccurred())
			GinkgoWriter.Printf("%d rounds, none failed\n", rounds)
			bundles, err := w.bundles(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Count(string(bundles[0]), "BEGIN CERTIFICATE")).To(BeNumerically(">", 1), "the old CA stays")
		})
	}

	It("makes a new certificate, from the same CA, for one that was removed", func(ctx SpecContext) {
		before, err := w.secret(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.admin.Patch(ctx, before.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/data/tls.crt"}]`)))).To(Succeed())
		Eventually(w.settled).WithContext(ctx).WithTimeout(patience).Should(Succeed())
		after, err := w.secret(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Data["ca.crt"]).To(Equal(before.Data["ca.crt"]))
		Expect(after.Data["tls.crt"]).NotTo(Equal(before.Data["tls.crt"]))
	})

	It("writes nothing when all is well, and needs no leader", func(ctx SpecContext) {
		before := w.writes()
		Consistently(w.writes).WithTimeout(3 * time.Second).Should(Equal(before))

		// The Lease of a leader that was killed lasts for a while.
		var leader *replica
		Eventually(func() *replica { leader = w.leader(); return leader }).WithTimeout(patience).ShouldNot(BeNil())
		leader.manager.Kill()
		other := w.replicas[0]
		if other == leader {
			other = w.replicas[1]
		}
		w.replicas = []*replica{other}
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configName}}
		Expect(w.admin.Patch(ctx, configuration, client.RawPatch(types.JSONPatchType, []byte(
			`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"},{"op":"remove","path":"/webhooks/1/clientConfig/caBundle"}]`)))).To(Succeed())
		Eventually(w.settled).WithContext(ctx).WithTimeout(patience).Should(Succeed())
		Expect(w.leader()).NotTo(Equal(other))
		// An object is seen to have changed before the audit log has the change.
		Eventually(func() []string { return w.writes()[len(before):] }).WithTimeout(patience).Should(And(Not(BeEmpty()), HaveEach(other.user())))
		w.replicas = []*replica{other, leader}
	})

	It("logs no key", func(ctx SpecContext) {
		secret, err := w.secret(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, r := range w.replicas {
			Expect(r.manager.Logs()).NotTo(ContainSubstring("PRIVATE KEY"))
			for _, key := range []string{"ca.key", "tls.key"} {
				body := strings.Split(string(secret.Data[key]), "\n")[1]
				Expect(r.manager.Logs()).NotTo(ContainSubstring(body))
			}
		}
	})

	// That it needs each of those that the chart grants is shown by the end-to-end scenario "Rights".
	It("was never refused anything", func() {
		for _, event := range w.audit() {
			for _, r := range w.replicas {
				if event.User.Username == r.user() && event.ResponseStatus != nil {
					Expect(event.ResponseStatus.Code).NotTo(BeEquivalentTo(http.StatusForbidden), event.Verb+" "+event.RequestURI)
				}
			}
		}
	})
})

// load is somebody who writes all the time what is refused.
type load struct {
	count  atomic.Int64
	cancel context.CancelFunc
	done   chan error
}

// refuses reports what else than the refusal of both replicas answers a bad Cluster.
func (w *world) refuses(ctx context.Context) error {
	err := w.admin.Create(ctx, labelled(builder.Cluster(tenant, "load"), "yes"), client.DryRunAll)
	if apierrors.IsInvalid(err) {
		return nil
	}
	return errors.Join(errors.New("it was not refused as invalid"), err)
}

// load begins to write. A good Cluster has to pass both replicas, and a bad one has to be refused.
func (w *world) load(ctx context.Context) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel, done: make(chan error, 1)}
	go func() {
		for ctx.Err() == nil {
			if err := errors.Join(w.refuses(ctx), w.admin.Create(ctx, labelled(builder.Cluster(tenant, "load"), "true"), client.DryRunAll)); err != nil && ctx.Err() == nil {
				l.done <- err
				return
			}
			l.count.Add(1)
		}
		l.done <- nil
	}()
	return l
}

// stop ends the load and returns how many rounds there were, and the first answer that was wrong.
func (l *load) stop() (int64, error) {
	l.cancel()
	return l.count.Load(), <-l.done
}
