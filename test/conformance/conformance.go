// Package conformance has what users of HostClaims may expect of each kind, whoever handles it, as specs: they run
// against the controller of a kind on a real API server. What a kind is beside that is its own.
package conformance

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/env"
)

// Kind is a kind of HostClaims. Its controller runs, and should run beside those of others.
type Kind struct {
	// Names are the values of spec.kind that the controller handles.
	Names []string
	// Others are kinds that somebody else handles, if somebody does.
	Others []string
	// User is whom the API server knows the controller as. It has an audit log.
	User string
	// Plane has the claims, and Admin is its administrator.
	Plane *env.ControlPlane
	Admin client.Client
	// Namespace is where claims are created.
	Namespace string
	// Restart ends the controller and starts it again.
	Restart func(ctx context.Context)
	// Spec returns a spec of the kind that can be satisfied, with all that the claim of a name needs for that.
	Spec func(ctx context.Context, name string) metal3v1.HostClaimSpec
	// Wrong has by a reason how a spec becomes one that cannot be satisfied as it is. Some condition
	// of the claim says the reason.
	Wrong map[string]func(*metal3v1.HostClaimSpec)
	// Effects returns what there is for a claim besides itself. What is not on Plane has its resourceVersion in it:
	// its writes are not seen there.
	Effects func(ctx context.Context, name string) []string
}

// quiet is how long nothing must happen for nothing to happen.
const quiet = time.Second

// Specs are those of a kind. They follow each other, so they are part of an Ordered container. Kind is asked for
// when its BeforeAll has run.
func Specs(name string, kind func() *Kind) {
	Context("A claim of kind "+name, func() {
		var k *Kind
		BeforeEach(func() { k = kind() })

		It("has what it asks for, and all that it says is about what it asks for now", func(ctx SpecContext) {
			k.create(ctx, k.claim(ctx, "whole"))
			k.satisfied(ctx, "whole")
			Expect(k.Effects(ctx, "whole")).NotTo(BeEmpty())
			Expect(k.get(ctx, "whole").Labels).To(HaveKeyWithValue(metal3v1.KindLabel, k.Names[0]))
			k.change(ctx, "whole", func(c *metal3v1.HostClaim) { c.Spec.Online = new(false) })
			k.satisfied(ctx, "whole")
			Expect(k.get(ctx, "whole").Generation).To(BeEquivalentTo(2))
		})

		It("costs no write when nothing changes, also when its controller starts anew", func(ctx SpecContext) {
			// What else there is may still have something to say of the last change.
			k.settled(ctx, "whole", quiet)
			written, had := k.writes("whole"), k.Effects(ctx, "whole")
			Expect(written).NotTo(BeEmpty())
			k.Restart(ctx)
			k.create(ctx, k.claim(ctx, "later"))
			k.satisfied(ctx, "later")
			// What was there before comes after what is new.
			Consistently(func() []string { return k.writes("whole") }, quiet).Should(Equal(written))
			Expect(k.Effects(ctx, "whole")).To(Equal(had))
		})

		It("is held before anything is done for it", func(ctx SpecContext) {
			claim := k.claim(ctx, "unheld")
			claim.Annotations = map[string]string{paused: ""}
			k.create(ctx, claim)
			allow := k.refuseToHold(ctx, claim)
			k.change(ctx, "unheld", func(c *metal3v1.HostClaim) { c.Annotations = nil })
			Consistently(func() []string { return k.Effects(ctx, "unheld") }, quiet).Should(BeEmpty())
			Expect(k.get(ctx, "unheld").Finalizers).To(BeEmpty())
			allow(ctx)
			k.satisfied(ctx, "unheld")
		})

		It("is left alone as long as it is paused", func(ctx SpecContext) {
			claim := k.claim(ctx, "paused")
			claim.Annotations = map[string]string{paused: ""}
			k.create(ctx, claim)
			k.create(ctx, k.claim(ctx, "beside"))
			k.satisfied(ctx, "beside")
			Expect(k.writes("paused")).To(BeEmpty())
			Expect(k.Effects(ctx, "paused")).To(BeEmpty())
			k.change(ctx, "paused", func(c *metal3v1.HostClaim) { c.Annotations = nil })
			k.satisfied(ctx, "paused")
		})

		It("is left alone as long as its Cluster is paused, even on its way out (case 25)", func(ctx SpecContext) {
			pause := k.cluster(ctx)
			// When another claim has what it asks for, the controller has heard of the Cluster.
			k.create(ctx, k.claim(ctx, "of-none"))
			k.satisfied(ctx, "of-none")
			claim := k.claim(ctx, "of-cluster")
			claim.Labels = map[string]string{"cluster.x-k8s.io/cluster-name": clusterName}
			k.create(ctx, claim)
			Consistently(func() []string { return k.writes("of-cluster") }, quiet/2).Should(BeEmpty())
			Expect(k.Effects(ctx, "of-cluster")).To(BeEmpty())
			pause(ctx, false)
			k.satisfied(ctx, "of-cluster")
			pause(ctx, true)
			// The controller hears of the pause a moment later. Then it does nothing with another generation.
			Eventually(func(g Gomega) {
				k.change(ctx, "of-cluster", func(c *metal3v1.HostClaim) { c.Spec.Online = new(!*c.Spec.Online) })
				k.quiet(ctx, g, "of-cluster", quiet/2)
			}).Should(Succeed())
			had := k.Effects(ctx, "of-cluster")
			k.remove(ctx, "of-cluster")
			Consistently(func() []string { return k.Effects(ctx, "of-cluster") }, quiet/2).Should(Equal(had))
			pause(ctx, false)
			k.gone(ctx, "of-cluster")
		})

		It("says by a reason why it cannot have what it asks for, once, and has it when it is corrected", func(ctx SpecContext) {
			for reason, spoil := range k.Wrong {
				k.corrected(ctx, reason, spoil)
			}
		})

		It("goes by its kind and not by its label, and those of others are theirs (attack S)", func(ctx SpecContext) {
			others := append([]string{"nobodys"}, k.Others...)
			for _, kind := range others {
				claim := k.claim(ctx, "of-"+kind)
				claim.Spec.Kind = kind
				claim.Labels = map[string]string{metal3v1.KindLabel: k.Names[0]}
				k.create(ctx, claim)
			}
			k.create(ctx, k.claim(ctx, "own"))
			k.satisfied(ctx, "own")
			for _, kind := range others {
				Expect(k.writes("of-"+kind)).To(BeEmpty(), kind)
				Expect(k.Effects(ctx, "of-"+kind)).To(BeEmpty(), kind)
				k.remove(ctx, "of-"+kind)
				k.gone(ctx, "of-"+kind)
			}
		})

		It("is gone when it is deleted, with all that there was for it", func(ctx SpecContext) {
			claims := &metal3v1.HostClaimList{}
			Expect(k.Admin.List(ctx, claims, client.InNamespace(k.Namespace))).To(Succeed())
			Expect(len(claims.Items)).To(BeNumerically(">", len(k.Wrong)+4))
			for i := range claims.Items {
				k.remove(ctx, claims.Items[i].Name)
			}
			for i := range claims.Items {
				k.gone(ctx, claims.Items[i].Name)
			}
		})

		It("is all that its controller asks the API server for, and patches are all that it writes to it", func() {
			requests := k.requests()
			Expect(requests).NotTo(BeEmpty())
			for _, request := range requests {
				k.check(request)
			}
		})
	})
}

// corrected has a claim be wrong first, and then right.
func (k *Kind) corrected(ctx context.Context, reason string, spoil func(*metal3v1.HostClaimSpec)) {
	GinkgoHelper()
	name := "wrong-" + strings.ToLower(reason)
	claim := k.claim(ctx, name)
	right := claim.Spec.DeepCopy()
	spoil(&claim.Spec)
	k.create(ctx, claim)
	Eventually(func() []string { return k.reasons(ctx, name) }).Should(ContainElement(reason))
	k.settled(ctx, name, quiet)
	k.change(ctx, name, func(c *metal3v1.HostClaim) { c.Spec = *right })
	k.satisfied(ctx, name)
}

// check expects a request of the controller to be one that it may have: of claims, it lists
// those of its kind, and patches.
func (k *Kind) check(request auditv1.Event) {
	GinkgoHelper()
	what := request.Verb + " " + request.RequestURI
	Expect(request.ResponseStatus.Code).NotTo(BeEquivalentTo(403), what)
	if request.ObjectRef.Resource != "hostclaims" {
		return
	}
	switch request.Verb {
	case "list", "watch":
		Expect(k.selects(request)).To(BeTrue(), what)
	case "get":
	default:
		Expect(request.Verb).To(Equal("patch"), what)
	}
}

// selects reports whether a request is for claims of one of the names of the kind alone.
func (k *Kind) selects(request auditv1.Event) bool {
	uri, err := url.Parse(request.RequestURI)
	Expect(err).NotTo(HaveOccurred())
	field, label := uri.Query().Get("fieldSelector"), uri.Query().Get("labelSelector")
	return slices.ContainsFunc(k.Names, func(name string) bool {
		return slices.Contains(strings.Split(field, ","), "spec.kind="+name) || slices.Contains(strings.Split(label, ","), metal3v1.KindLabel+"="+name)
	})
}

// settled waits until nothing is written any more, here or to what there is for a claim.
func (k *Kind) settled(ctx context.Context, name string, during time.Duration) {
	GinkgoHelper()
	Eventually(func(g Gomega) { k.quiet(ctx, g, name, during) }).Should(Succeed(), name)
}

func (k *Kind) quiet(ctx context.Context, g Gomega, name string, during time.Duration) {
	GinkgoHelper()
	written, had := k.writes(""), k.Effects(ctx, name)
	g.Consistently(func() []string { return k.writes("") }, during).Should(Equal(written))
	g.Expect(k.Effects(ctx, name)).To(Equal(had))
}

// satisfied waits until a claim has what it asks for, and says so of its generation.
func (k *Kind) satisfied(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		claim := k.get(ctx, name)
		g.Expect(claim.Status.ObservedGeneration).To(Equal(claim.Generation))
		ready := "none"
		for _, condition := range claim.Status.Conditions {
			g.Expect(condition.ObservedGeneration).To(Equal(claim.Generation), condition.Type)
			if condition.Type == metal3v1.ReadyCondition {
				ready = fmt.Sprint(condition.Status, " ", condition.Reason, " ", condition.Message)
			}
		}
		g.Expect(ready).To(HavePrefix("True "))
	}).Should(Succeed())
}

// reasons are those of conditions that are not True, of this generation.
func (k *Kind) reasons(ctx context.Context, name string) []string {
	claim := k.get(ctx, name)
	var reasons []string
	for _, condition := range claim.Status.Conditions {
		if condition.Status != metav1.ConditionTrue && condition.ObservedGeneration == claim.Generation {
			reasons = append(reasons, condition.Reason)
		}
	}
	return reasons
}

func (k *Kind) gone(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func() bool { return apierrors.IsNotFound(k.Admin.Get(ctx, k.key(name), &metal3v1.HostClaim{})) }).Should(BeTrue(), name)
	Expect(k.Effects(ctx, name)).To(BeEmpty(), name)
}

func (k *Kind) claim(ctx context.Context, name string) *metal3v1.HostClaim {
	GinkgoHelper()
	claim := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: name}, Spec: k.Spec(ctx, name)}
	claim.Spec.Kind, claim.Spec.Online = k.Names[0], new(true)
	return claim
}

func (k *Kind) create(ctx context.Context, claim client.Object) {
	GinkgoHelper()
	Expect(k.Admin.Create(ctx, claim)).To(Succeed())
}

func (k *Kind) get(ctx context.Context, name string) *metal3v1.HostClaim {
	GinkgoHelper()
	claim := &metal3v1.HostClaim{}
	Expect(k.Admin.Get(ctx, k.key(name), claim)).To(Succeed())
	return claim
}

func (k *Kind) change(ctx context.Context, name string, change func(*metal3v1.HostClaim)) {
	GinkgoHelper()
	before := k.get(ctx, name)
	after := before.DeepCopy()
	change(after)
	Expect(k.Admin.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
}

func (k *Kind) remove(ctx context.Context, name string) {
	GinkgoHelper()
	claim := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: name}}
	Expect(k.Admin.Delete(ctx, claim)).To(Succeed())
}

func (k *Kind) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: name}
}
