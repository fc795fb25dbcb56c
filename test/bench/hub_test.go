package main

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A small benchmark of the hub", func() {
	// It asserts what is counted, and no duration.
	It("imports from each management cluster beside a black hole, and is silent when settled", func(ctx SpecContext) {
		o := defaultOptions()
		o.Manager, o.ManagementClusters, o.Clusters, o.Namespaces, o.Machines = manager, 3, 2, 1, 1
		o.AgentDelay, o.Idle, o.Settle = 50*time.Millisecond, time.Second, time.Second
		Expect(o.validate(nil)).To(Succeed())
		many, one, err := hubs(ctx, o, GinkgoT().TempDir(), GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		Expect(many.hubSize).To(Equal(hubSize{sites: 2, holes: 1, clusters: 2}))
		Expect(one.hubSize).To(Equal(hubSize{sites: 1, clusters: 4, spare: 1}))
		for _, r := range []*hubResult{many, one} {
			Expect(r.records).To(Equal(4))
			Expect(r.applied).To(BeNumerically(">", 0))
			Expect(r.idle).To(BeNumerically(">=", o.Idle))
			Expect(r.writes).To(BeEmpty())
			Expect(r.reads).To(BeEmpty())
			Expect(r.peak.Anon).To(BeNumerically(">=", r.engagedMiB))
		}
		one.applied = many.applied
		var out bytes.Buffer
		Expect(checkHub(many, one, &out)).To(Succeed())
		Expect(out.String()).To(ContainSubstring("Memory for each further management cluster"))
	})
})

func TestHubBounds(t *testing.T) {
	run := func(sites, holes int) *hubResult {
		return &hubResult{hubSize: hubSize{sites: sites, holes: holes, clusters: 40 / sites}, applied: 10 * time.Second, records: 40, idle: time.Minute}
	}
	cases := map[string]struct {
		reason string
		change func(*hubResult)
		broken bool
	}{
		"Same":   {reason: "as long as with one management cluster", change: func(*hubResult) {}},
		"Slow":   {reason: "black holes delay the others", change: func(r *hubResult) { r.applied = 13 * time.Second }, broken: true},
		"Busy":   {reason: "times of a machine that others use are no promise", change: func(r *hubResult) { r.applied, r.others = 13*time.Second, 0.5 }},
		"Twice":  {reason: "a cluster was imported twice", change: func(r *hubResult) { r.records++ }, broken: true},
		"Writes": {reason: "something is written when settled", change: func(r *hubResult) { r.writes = []string{"patch"} }, broken: true},
		"Reads":  {reason: "something is read when settled", change: func(r *hubResult) { r.reads = []string{"get"} }, broken: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			many := run(8, 2)
			tc.change(many)
			if err := checkHub(many, run(1, 0), io.Discard); errors.Is(err, errBounds) != tc.broken {
				t.Errorf("%s: got %v", tc.reason, err)
			}
		})
	}
}
