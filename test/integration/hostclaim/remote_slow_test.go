package hostclaim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// slowSpecs are about servers of strangers that answer slowly.
func slowSpecs(worlds func() (here, there *world)) {
	newStranded := stranded(worlds, "slow")

	It("is not delayed by the slow servers of another tenant, of which few are used", func(ctx SpecContext) {
		here, there := worlds()
		slow, other := newStranded(ctx), newTenant(ctx, here, there, "beside-slow")
		const contexts, most, mostWorkers = 40, 16, 2
		end := make(chan struct{})
		var busy, busiest atomic.Int32
		s := newStranger(func(_ http.ResponseWriter, req *http.Request) {
			if is := busy.Add(1); is > mostWorkers {
				busiest.Store(is)
			}
			defer busy.Add(-1)
			select {
			case <-end:
			case <-req.Context().Done():
			}
		})
		answer := sync.OnceFunc(func() { close(end) })
		defer answer()
		slow.credentials(ctx, "remote", write(func(c *clientcmdapi.Config) {
			led, err := clientcmd.Load(s.kubeconfig("t0ken"))
			Expect(err).NotTo(HaveOccurred())
			*c = *led
			for i := range contexts {
				c.Contexts[fmt.Sprint("x", i)] = c.Contexts["x"].DeepCopy()
			}
		}))
		for i := range contexts {
			slow.here.claim(ctx, slow.namespace, fmt.Sprint("c", i), fmt.Sprintf(
				"kind: remote\nidentityRef: {name: remote, context: x%d}\nargs: {real-kind: baremetal}\n", i))
		}
		Eventually(busy.Load).Should(BeEquivalentTo(mostWorkers))
		other.claim(ctx, "c", "")
		Eventually(other.synced(ctx, "c")).Should(Equal(inStep))
		other.remove(ctx, "c")
		Eventually(other.synced(ctx, "c")).Should(Equal("NotFound"))
		Expect(busiest.Load()).To(BeZero(), "more workers that wait for the servers of one tenant")

		By("counting what the tenant may have, once its servers answer")
		answer()
		isRefused := func(i int) bool {
			return strings.Contains(slow.synced(ctx, fmt.Sprint("c", i))(), "use 16 kubeconfigs")
		}
		refused := func() int {
			return len(slices.DeleteFunc(numbers(contexts), func(i int) bool { return !isRefused(i) }))
		}
		Eventually(refused).Should(Equal(contexts - most))

		By("letting one that was refused use the context of another one")
		without := fmt.Sprint("c", slices.IndexFunc(numbers(contexts), isRefused))
		used := fmt.Sprint("x", slices.IndexFunc(numbers(contexts), func(i int) bool { return !isRefused(i) }))
		slow.change(ctx, without, func(c *metal3v1.HostClaim) { c.Spec.IdentityRef.Context = used })
		Eventually(slow.synced(ctx, without)).ShouldNot(ContainSubstring("use 16 kubeconfigs"))
	})
}

// fickleSpecs are about servers of strangers that answer something else each time.
func fickleSpecs(worlds func() (here, there *world)) {
	newStranded := stranded(worlds, "fickle")

	It("bounds what a server that answers something else each time has it write (attack R)", func(ctx SpecContext) {
		t := newStranded(ctx)
		f := &fickle{uid: "uid-of-the-target"}
		s := newStranger(f.answer)
		t.credentials(ctx, "remote", s.kubeconfig("t0ken-of-the-tenant"))
		t.claim(ctx, "c", "")
		Eventually(f.isCreated).Should(BeTrue())
		t.nudge(ctx, "c")
		Eventually(t.synced(ctx, "c")).Should(Equal(inStep))
		seen := map[string]bool{}
		Consistently(func() int {
			seen[t.here.getClaim(ctx, t.namespace, "c").ResourceVersion] = true
			return len(seen)
		}, "10s", "10ms").Should(BeNumerically("<", 70))
	})

	It("stores no more of an answer than one has (attack R)", func(ctx SpecContext) {
		t := newStranded(ctx)
		for name, uid := range map[string]string{"long": strings.Repeat("u", 400_000), "odd": "a\nb", "none": ""} {
			f := &fickle{uid: uid}
			s := newStranger(f.answer)
			t.credentials(ctx, name, s.kubeconfig("t0ken-of-the-tenant"))
			t.here.claim(ctx, t.namespace, name, "kind: remote\ncredentials: "+name+"\nargs: {real-kind: baremetal}\n")
			Eventually(f.isCreated).Should(BeTrue(), name)
			t.nudge(ctx, name)
			Eventually(t.synced(ctx, name)).Should(HavePrefix("False RemoteRejected"), name)
			raw, err := json.Marshal(t.here.getClaim(ctx, t.namespace, name))
			Expect(err).NotTo(HaveOccurred())
			Expect(len(raw)).To(BeNumerically("<", 10_000), name)
		}
	})
}

// numbers returns those from 0.
func numbers(most int) []int {
	all := make([]int, most)
	for i := range all {
		all[i] = i
	}
	return all
}
