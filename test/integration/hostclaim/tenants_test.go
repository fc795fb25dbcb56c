package hostclaim_test

import (
	"context"
	"fmt"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

const (
	pausedAnnotation = "cluster.x-k8s.io/paused"
	movedAnnotation  = "clusterctl.cluster.x-k8s.io/delete-for-move"
	parkedAnnotation = "hostclaims.metal3.io/parked"
	lostAnnotation   = "hostclaims.metal3.io/lost-host"
)

// What a tenant writes into its own namespace keeps no host from others.
var _ = Describe("A tenant that means others ill", Ordered, ContinueOnFailure, func() {
	var w *world
	var stop func()
	pools := 0

	// newPool returns a new namespace with some hosts that are free.
	newPool := func(ctx context.Context, hosts ...string) string {
		GinkgoHelper()
		pools++
		infra := fmt.Sprintf("infra-%d", pools)
		w.namespace(ctx, infra)
		for _, name := range hosts {
			w.host(ctx, infra, name, nil)
		}
		return infra
	}
	change := func(ctx context.Context, namespace, name string, change func(*metal3v1.HostClaim)) {
		GinkgoHelper()
		before := w.getClaim(ctx, namespace, name)
		after := before.DeepCopy()
		change(after)
		Expect(w.admin.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
	}
	annotate := func(ctx context.Context, namespace, name string, annotations ...string) {
		GinkgoHelper()
		change(ctx, namespace, name, func(c *metal3v1.HostClaim) {
			for i := 0; i < len(annotations); i += 2 {
				c.Annotations = hostclaim.Set(c.Annotations, annotations[i], annotations[i+1])
			}
		})
	}
	// running returns a claim that has provisioned a host of a namespace.
	running := func(ctx context.Context, namespace, name, infra string, labels map[string]string) {
		GinkgoHelper()
		w.claim(ctx, namespace, name, "online: true\n"+image+only(infra))
		change(ctx, namespace, name, func(c *metal3v1.HostClaim) { c.Labels = labels })
		Eventually(func() bool { return w.getClaim(ctx, namespace, name).Status.Ready }).Should(BeTrue())
	}
	deleteNamespace := func(ctx context.Context, name string) {
		GinkgoHelper()
		Expect(w.admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	left := func(ctx context.Context, namespace string) func() bool {
		return func() bool {
			return apierrors.IsNotFound(w.admin.Get(ctx, types.NamespacedName{Name: namespace}, &corev1.Namespace{}))
		}
	}
	deleted := func(ctx context.Context, namespace, name string) func() bool {
		return func() bool { return w.getClaim(ctx, namespace, name).DeletionTimestamp != nil }
	}
	ofCluster := map[string]string{clusterv1.ClusterNameLabel: "k"}

	BeforeAll(func(ctx SpecContext) {
		w = newMachineWorld(ctx, "hostclaim-tenants")
		w.operate()
		for _, name := range []string{"team-a", "team-b"} {
			w.namespace(ctx, name)
		}
		stop = w.start(ctx)
	})

	It("gives the hosts of claims back with its namespace, whatever pauses these", func(ctx SpecContext) {
		infra := newPool(ctx, "h1", "h2", "h3")
		w.namespace(ctx, "leaves")
		for name, labels := range map[string]map[string]string{"paused": nil, "parked": ofCluster, "deleted": nil} {
			running(ctx, "leaves", name, infra, labels)
		}
		annotate(ctx, "leaves", "paused", pausedAnnotation, "x")
		annotate(ctx, "leaves", "parked", pausedAnnotation, "x", parkedAnnotation, "leaves/nothing")
		annotate(ctx, "leaves", "deleted", pausedAnnotation, "x")
		Expect(w.admin.Delete(ctx, unstructuredClaim("leaves", "deleted"))).To(Succeed())
		Consistently(deleted(ctx, "leaves", "deleted")).Should(BeTrue(), "what is paused is left alone as long as its namespace stays")

		deleteNamespace(ctx, "leaves")
		Eventually(left(ctx, "leaves")).Should(BeTrue())
		for _, name := range []string{"h1", "h2", "h3"} {
			host := w.getHost(ctx, infra, name)
			Expect(host.Spec.ConsumerRef).To(BeNil())
			Expect(host.Status.Provisioning.State).To(Equal(bmov1.StateAvailable))
		}
	})

	It("has no host cleaned that is being moved", func(ctx SpecContext) {
		infra := newPool(ctx, "h1", "h2")
		for _, name := range []string{"moves", "moves-cluster", "moves-host"} {
			w.namespace(ctx, name)
		}
		running(ctx, "moves", "c", infra, nil)
		// clusterctl has this annotation replace all others.
		change(ctx, "moves", "c", func(c *metal3v1.HostClaim) { c.Annotations = map[string]string{movedAnnotation: ""} })

		running(ctx, "moves-cluster", "c", infra, ofCluster)
		w.create(ctx, &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "moves-cluster", Name: "k", Finalizers: []string{clusterv1.ClusterFinalizer}},
			Spec: clusterv1.ClusterSpec{
				Paused: new(true), ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "k.example", Port: 6443},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "x.example", Kind: "X", Name: "x"},
			},
		})
		annotate(ctx, "moves-cluster", "c", pausedAnnotation, "x")

		w.host(ctx, "moves-host", "h", func(h *bmov1.BareMetalHost) { h.Finalizers = []string{bmov1.BareMetalHostFinalizer} })
		running(ctx, "moves-host", "c", "moves-host", nil)
		annotate(ctx, "moves-host", "c", pausedAnnotation, "x")
		Eventually(func() string { return w.getClaim(ctx, "moves-host", "c").Annotations[parkedAnnotation] }).Should(Equal("moves-host/h"))
		Eventually(func() map[string]string { return w.getHost(ctx, "moves-host", "h").Annotations }).Should(HaveKey(bmov1.PausedAnnotation))

		for _, namespace := range []string{"moves", "moves-cluster", "moves-host"} {
			deleteNamespace(ctx, namespace)
			Eventually(deleted(ctx, namespace, "c")).Should(BeTrue())
		}
		Consistently(func(g Gomega) {
			for _, host := range []*bmov1.BareMetalHost{
				w.getHost(ctx, infra, "h1"), w.getHost(ctx, infra, "h2"), w.getHost(ctx, "moves-host", "h"),
			} {
				g.Expect(host.Spec.ConsumerRef).NotTo(BeNil())
				g.Expect(host.Spec.Image).NotTo(BeNil())
				g.Expect(host.Annotations).NotTo(HaveKey(metal3v1.ReleaseAnnotation))
			}
		}).Should(Succeed())

		By("resuming the host that has come back")
		annotate(ctx, "moves-host", "c", pausedAnnotation, "")
		Eventually(left(ctx, "moves-host")).Should(BeTrue())
	})

	// forge writes into the status of a claim that it had a host, or has lost one.
	forge := func(ctx context.Context, namespace, name string, host string, reasons map[string]string) {
		GinkgoHelper()
		before := w.getClaim(ctx, namespace, name)
		after := before.DeepCopy()
		after.Status.BareMetalHost = nil
		if host != "" {
			after.Status.BareMetalHost = &metal3v1.ObjectReference{Namespace: "infra-1", Name: host}
		}
		for kind, reason := range reasons {
			status := metav1.ConditionTrue
			if reason == metal3v1.HostLostReason {
				status = metav1.ConditionFalse
			}
			meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "forged"})
		}
		Expect(w.admin.Status().Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
	}

	It("loses no host by a status that says so alone", func(ctx SpecContext) {
		infra := newPool(ctx)
		provisioned := map[string]string{"Provisioned": "Provisioned", "Associated": "BareMetalHostAssociated"}
		lost := map[string]string{"Associated": "HostLost", "AssociateBMH": "HostLost"}
		forgeries := map[string]func(string){
			"provisioned": func(name string) { forge(ctx, "team-a", name, "never", provisioned) },
			"lost":        func(name string) { forge(ctx, "team-a", name, "", lost) },
			"another":     func(name string) { forge(ctx, "team-a", name, "h1", provisioned) },
		}
		By("forging while the controller runs")
		for name := range forgeries {
			w.claim(ctx, "team-a", name, only(infra))
			Eventually(w.associated(ctx, "team-a", name)).Should(HavePrefix("False NoBareMetalHost"))
		}
		for name, forge := range forgeries {
			forge(name)
			Eventually(w.associated(ctx, "team-a", name)).Should(HavePrefix("False NoBareMetalHost"))
		}
		By("forging while it does not run")
		stop()
		for name, forge := range forgeries {
			forge(name)
			w.host(ctx, infra, "for-"+name, nil)
		}
		stop = w.start(ctx)
		for name := range forgeries {
			Eventually(w.associated(ctx, "team-a", name)).Should(Equal(bound))
		}
	})

	It("gets no second host for a claim whose host was lost, until somebody says so", func(ctx SpecContext) {
		infra := newPool(ctx, "h1")
		running(ctx, "team-a", "loser", infra, nil)
		stop()
		w.changeHost(ctx, infra, "h1", func(h *bmov1.BareMetalHost) {
			h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "metal3.io/v1alpha1", Kind: "HostClaim", Namespace: "team-b", Name: "x"}
		})
		w.host(ctx, infra, "h2", nil)
		for range 2 {
			stop = w.start(ctx)
			Eventually(w.associated(ctx, "team-a", "loser")).Should(HavePrefix("False HostLost"))
			Consistently(w.consumer(ctx, infra, "h2")).Should(BeEmpty())
			stop()
		}
		stop = w.start(ctx)
		Expect(w.getClaim(ctx, "team-a", "loser").Annotations).To(HaveKeyWithValue(lostAnnotation, infra+"/h1"))
		annotate(ctx, "team-a", "loser", lostAnnotation, "")
		Eventually(w.associated(ctx, "team-a", "loser")).Should(Equal(bound))
		Expect(w.consumer(ctx, infra, "h2")()).To(Equal("team-a/loser"))
	})
})
