package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// The audit log is the judge of who worked on which cluster, and when.
var _ = Describe("Shards by label, of many namespaces that change their labels all the time,", func() {
	DescribeTable("write each cluster in turn, leave none without an instance for long, and import each once",
		func(ctx context.Context, namespaces, rounds int, round time.Duration) {
			s := newSelectedShards()
			s.begin(ctx, namespaces)
			half := len(s.clusters) / 2
			s.dye(ctx, "blue", s.clusters[:half]...)
			s.dye(ctx, "red", s.clusters[half:]...)
			s.expectFirst(ctx)
			s.expectHandedOver(ctx, s.clusters...)

			first := len(s.dyed)
			pace := time.NewTicker(round / time.Duration(namespaces))
			defer pace.Stop()
			for range rounds {
				for _, cluster := range s.clusters {
					Eventually(ctx, pace.C).Should(Receive())
					s.expectHandedOver(ctx, cluster) // On a busy machine the pace is slower.
					s.dye(ctx, other(s.colours[cluster.Namespace]), cluster)
				}
			}
			s.expectHandedOver(ctx, s.clusters...)

			Expect(s.expectInTurn()).To(Equal(namespaces * rounds))
			turns := s.turns()
			Expect(turns.late(s.dyed[first:])).To(BeEmpty())
			AddReportEntry(fmt.Sprintf("%d changes of labels: %s", namespaces*rounds, turns))
			s.expectOnce(ctx)
			for _, instance := range s.instances {
				instance.expectLawful()
			}
		},
		Entry("20 namespaces, each three times within half a minute", Label("nightly"), 20, 3, 10*time.Second),
		Entry("200 namespaces, each once a minute for five minutes", Label("long"), 200, 5, time.Minute),
	)
})

func other(colour string) string {
	if colour == "blue" {
		return "red"
	}
	return "blue"
}

// turns are the times of hand-overs, by the audit log.
type turns struct {
	// taken are when an instance took a cluster, by namespace and instance.
	taken map[string][]time.Time
	// unowned is how long clusters had no instance, and waited how long they took to come to the one that selects them.
	unowned, waited []time.Duration
}

// turns reads the audit log.
func (s *selectedShards) turns() *turns {
	GinkgoHelper()
	t, left := &turns{taken: map[string][]time.Time{}}, map[string]time.Time{}
	colours := map[string]string{}
	for _, instance := range s.instances {
		colours[instance.User()] = instance.Name
	}
	for _, write := range writesTo(s.Management, s.instances[0].since, s.instances[0].User(), s.instances[1].User()) {
		if write.ObjectRef.APIGroup != "cluster.x-k8s.io" || write.RequestObject == nil || write.ResponseStatus == nil || write.ResponseStatus.Code >= 400 {
			continue
		}
		namespace := write.ObjectRef.Namespace
		switch body := string(write.RequestObject.Raw); {
		case says(body, "null"):
			left[namespace] = write.StageTimestamp.Time
		case says(body, `"`+s.idOf(write)+`"`):
			key := namespace + " " + colours[write.User.Username]
			t.taken[key] = append(t.taken[key], write.StageTimestamp.Time)
			if since, ok := left[namespace]; ok {
				t.unowned = append(t.unowned, write.StageTimestamp.Sub(since))
			}
			delete(left, namespace)
		}
	}
	Expect(left).To(BeEmpty(), "clusters without an instance at the end")
	return t
}

// says reports whether a patch sets who works on a cluster.
func says(patch, value string) bool {
	return strings.Contains(patch, fmt.Sprintf("%q:%s", instanceKey, value))
}

// idOf returns how the instance that has written something calls itself on clusters.
func (s *selectedShards) idOf(write auditv1.Event) string {
	i := slices.IndexFunc(s.instances, func(i *instance) bool { return i.User() == write.User.Username })
	return s.instances[i].ID()
}

// late returns the changes of labels after which the cluster did not come to its instance in time.
func (t *turns) late(dyed []dyeing) []string {
	var late []string
	for _, d := range dyed {
		taken := t.taken[d.namespace+" "+d.colour]
		i := slices.IndexFunc(taken, func(at time.Time) bool { return at.After(d.at) })
		if i < 0 {
			late = append(late, fmt.Sprintf("%s was never taken by %s", d.namespace, d.colour))
			continue
		}
		took := taken[i].Sub(d.at)
		if t.waited = append(t.waited, took); took > handedOver {
			late = append(late, fmt.Sprintf("%s was taken by %s after %s", d.namespace, d.colour, took))
		}
	}
	for _, gap := range t.unowned {
		if gap > handedOver {
			late = append(late, fmt.Sprintf("a cluster had no instance for %s", gap))
		}
	}
	return late
}

// String says how long it took.
func (t *turns) String() string {
	at := func(durations []time.Duration, share float64) time.Duration {
		if len(durations) == 0 {
			return 0
		}
		sorted := slices.Sorted(slices.Values(durations))
		return sorted[int(share*float64(len(sorted)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("from the label to the other instance p50 %s, p99 %s, max %s; without an instance p50 %s, p99 %s, max %s",
		at(t.waited, 0.5), at(t.waited, 0.99), at(t.waited, 1), at(t.unowned, 0.5), at(t.unowned, 0.99), at(t.unowned, 1))
}
