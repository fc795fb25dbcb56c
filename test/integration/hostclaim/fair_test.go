package hostclaim_test

import (
	"context"
	"fmt"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("Hosts for which claims of several namespaces wait", Ordered, func() {
	var w *world
	const infra, many, few = "infra", 150, 10

	// taken returns the namespaces that have hosts, in the order in which these were freed.
	taken := func(ctx context.Context) []string {
		GinkgoHelper()
		hosts := &bmov1.BareMetalHostList{}
		Expect(w.admin.List(ctx, hosts, client.InNamespace(infra))).To(Succeed())
		var namespaces []string
		for _, host := range hosts.Items {
			if ref := host.Spec.ConsumerRef; ref != nil {
				namespaces = append(namespaces, ref.Namespace)
			}
		}
		return namespaces
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "hostclaim-fair")
		for _, name := range []string{infra, "team-big", "team-small", "team-refused"} {
			w.namespace(ctx, name)
		}
		w.start(ctx)
		for i := range many {
			w.claim(ctx, "team-big", fmt.Sprint("c-", i), only(infra))
		}
		for i := range few {
			w.claim(ctx, "team-small", fmt.Sprint("c-", i), only(infra))
		}
		w.claim(ctx, "team-refused", "c", only(infra))
		for namespace, name := range map[string]string{
			"team-big": fmt.Sprint("c-", many-1), "team-small": fmt.Sprint("c-", few-1), "team-refused": "c",
		} {
			Eventually(w.associated(ctx, namespace, name)).Should(HavePrefix("False NoBareMetalHost"))
		}
	})

	It("go to these in turn, however many claims one has", func(ctx SpecContext) {
		for i := range 2*few + 3 {
			w.host(ctx, infra, fmt.Sprintf("h-%02d", i), func(h *bmov1.BareMetalHost) {
				h.Annotations["hostclaims.metal3.io/namespaces"] = "team-big,team-small"
			})
			Eventually(func() int { return len(taken(ctx)) }).Should(Equal(i + 1))
		}
		order := taken(ctx)
		for _, so := range []int{6, 10, 2 * few} {
			Expect(strings.Count(strings.Join(order[:so], " "), "team-small")).To(BeNumerically("~", so/2, 1), "%v", order)
		}
		Expect(order[2*few+1:]).To(HaveEach("team-big"), "nobody else waits any more")
	})

	It("wait for nobody who does not take them", func(ctx SpecContext) {
		w.claim(ctx, "team-small", "late", only(infra))
		Eventually(w.associated(ctx, "team-small", "late")).Should(HavePrefix("False NoBareMetalHost"))
		// No write of this claim succeeds: it is next, and cannot take the host.
		w.failing(func(write string) error {
			if strings.HasPrefix(write, "before ") && strings.HasSuffix(write, " team-small/late") {
				return errDead
			}
			return nil
		})
		DeferCleanup(func() { w.failing(nil) })
		for i := range 2 {
			name := fmt.Sprintf("i-%d", i)
			w.host(ctx, infra, name, nil)
			Eventually(w.consumer(ctx, infra, name), "20s").Should(HavePrefix("team-"))
		}
	})
})
