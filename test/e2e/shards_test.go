package e2e

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/test/importing"
)

// Scenario 12: document 000's test plan, and what follows from it.
var _ = Describe("Shards", Ordered, func() {
	s := &shards{}
	BeforeAll(s.start)

	It("are the namespaces that --namespace names, and nothing is asked about others", func(ctx context.Context) {
		one := s.central(ctx, "archelon1", flags("namespace", watch1, watch2)...)
		clusters := s.each(ctx, "included")
		s.expectImported(ctx, clusters[:2]...)
		s.expectUntouched(ctx, clusters[2])
		Expect(s.Reason(ctx, clusters[2])()).To(Equal("none"))
		Expect(importing.Current(ctx, s.Client, clusters[2]).Finalizers).To(BeEmpty())
		s.remove(ctx, clusters...)
		one.expectNothingAbout(watch3)
		for _, e := range one.scoped() {
			Expect(e.ObjectRef.Namespace).To(BeElementOf(watch1, watch2), e.RequestURI)
		}
		one.expectLawful()
	})

	It("are all namespaces but those that --excluded-namespace names, and the API server does not send them", func(ctx context.Context) {
		two := s.central(ctx, "archelon2", "--excluded-namespace="+watch3)
		clusters := s.each(ctx, "excluded")
		s.expectImported(ctx, clusters[:2]...)
		s.expectUntouched(ctx, clusters[2])
		Expect(s.Reason(ctx, clusters[2])()).To(Equal("none"))
		s.remove(ctx, clusters...)
		for _, e := range two.scoped() {
			Expect(fieldSelector(e)).To(Equal("metadata.namespace!=watch3"), e.RequestURI)
		}
		two.expectLawful()
	})

	It("may leave out hundreds of namespaces with the longest names", Label("nightly"), func(ctx context.Context) {
		excluded := []string{watch3}
		for len(excluded) < 200 {
			random := make([]byte, 28)
			_, err := rand.Read(random)
			Expect(err).NotTo(HaveOccurred())
			excluded = append(excluded, "tenant-"+hex.EncodeToString(random))
		}
		Expect(excluded[1]).To(HaveLen(63))
		one := s.central(ctx, "archelon1", "--excluded-namespace="+strings.Join(excluded, ","))
		clusters := s.each(ctx, "many")
		s.expectImported(ctx, clusters[:2]...)
		s.expectUntouched(ctx, clusters[2])
		s.remove(ctx, clusters...)
		for _, e := range one.scoped() {
			Expect(strings.Count(fieldSelector(e), "metadata.namespace!=")).To(Equal(200), e.RequestURI)
		}
		one.expectLawful()
	})

	It("may be narrowed by --watch-filter", func(ctx context.Context) {
		one := s.central(ctx, "archelon1", "--namespace="+watch1, "--watch-filter=blue")
		blue := func(c *clusterv1.Cluster) {
			importing.Selected(c)
			c.Labels["cluster.x-k8s.io/watch-filter"] = "blue"
		}
		wanted := s.light(ctx, watch1, "blue", blue)
		var others []*clusterv1.Cluster
		for i, cluster := range []struct {
			namespace string
			change    func(*clusterv1.Cluster)
		}{{watch1, importing.Selected}, {watch2, blue}, {watch2, importing.Selected}} {
			others = append(others, s.light(ctx, cluster.namespace, fmt.Sprint("other-", i), cluster.change))
		}
		s.expectImported(ctx, wanted)
		for _, cluster := range others {
			s.expectUntouched(ctx, cluster)
			Expect(s.Reason(ctx, cluster)()).To(Equal("none"))
		}
		s.remove(ctx, append(others, wanted)...)
		one.expectLawful()
	})

	s.changes()

	for _, strategy := range importing.Strategies() {
		Describe("of rights that are withdrawn, with "+strategy+" records", importing.LongUnless(strategy == "v3"), Ordered, func() { s.withdrawals(strategy) })
		Describe("of a namespace that is deleted, with "+strategy+" records", importing.LongUnless(strategy == "v3"), Ordered, func() { s.endings(strategy) })
		Describe("of an instance with rights in its namespaces only, with "+strategy+" records", importing.LongUnless(strategy == "v3"), Ordered, func() {
			s.isolation(strategy)
		})
	}
})
