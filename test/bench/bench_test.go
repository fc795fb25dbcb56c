package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A small benchmark", func() {
	// It asserts what is counted and in which order things happen, but no duration: the machine may be busy.
	DescribeTable("imports, counts and writes its results", func(newcomer bool, arguments ...string) {
		var stdout, stderr bytes.Buffer
		results := filepath.Join(GinkgoT().TempDir(), "results.json")
		code := command(append(arguments, "--manager="+manager, "--clusters=5", "--machines=1", "--namespaces=2", "--black-holes=0.2",
			"--agent-delay=50ms", "--idle=200ms", "--settle=200ms", "--timeout=10m", "--json="+results, "--markdown"), &stdout, &stderr)
		Expect(code).To(BeZero(), "%s", &stderr)

		raw, err := os.ReadFile(results)
		Expect(err).NotTo(HaveOccurred())
		found := report{}
		Expect(json.Unmarshal(raw, &found)).To(Succeed())
		Expect(found.Runs).To(HaveLen(1))
		run := found.Runs[0]
		Expect(run.Clusters).To(Equal(5))
		Expect(run.BlackHoles).To(Equal(1))
		wave, records := 5, 5
		if newcomer {
			wave, records = 6, 7
		}
		Expect(run.Records).To(Equal(records))
		Expect(run.Recorded.P50).To(BeNumerically(">", 0))
		Expect(run.Applied.P50).To(BeNumerically(">", 0))
		Expect(run.Applied.Max).To(BeNumerically(">=", run.Applied.P50))
		Expect(run.Imported.P50).To(BeNumerically(">=", run.Applied.P50+(50*time.Millisecond).Seconds()))
		Expect(run.AppliedSeconds).To(BeNumerically(">=", run.Applied.Max))
		Expect(run.Management.ByResource).To(HaveKeyWithValue(HavePrefix("create clusters."), wave))
		Expect(run.Workload.ByResource).To(HaveKeyWithValue("patch deployments", wave-run.BlackHoles))
		Expect(run.Downloads.Total).To(Equal(wave - run.BlackHoles))
		Expect(stdout.String()).To(ContainSubstring("label to agent applied"))
		Expect(stdout.String()).To(MatchRegexp(`patch deployments\s+1\.00`))
		Expect(stdout.String()).To(ContainSubstring("| 5 as " + run.Strategy + " |"))
		Expect(run.Anew.ReadySeconds).To(BeNumerically(">", 0))
		Expect(run.Anew.CalmSeconds).To(BeNumerically(">=", run.Anew.ReadySeconds))
		Expect(run.Anew.Settled.Seconds).To(BeNumerically(">=", 0.2))
		Expect(run.Newcomer != nil).To(Equal(newcomer))
		if newcomer {
			expectNewcomer(run.Newcomer)
			Expect(stdout.String()).To(ContainSubstring("newcomer/crowd p50"))
		}
		Expect(run.Scopes != nil).To(Equal(!newcomer))
		if run.Scopes != nil {
			expectScopes(run.Scopes)
			Expect(stdout.String()).To(ContainSubstring("LIMITED BY THE SCOPE"))
		}
		if runtime.GOOS == "linux" { // elsewhere the kernel is not asked
			Expect(run.Processes).To(And(HaveKey("archelon"), HaveKey("kube-apiserver")))
			Expect(run.PeakAnonMiB).To(BeNumerically(">", 0))
			Expect(run.PeakMiB).To(BeNumerically(">", run.PeakAnonMiB))
		}
	},
		Entry("as v1 with a newcomer, with the light Rancher", true, "--strategy=v1", "--newcomer"),
		Entry("as v3 in scopes, with the stand-in", false, "--rancher=standin", "--scope=1"),
	)
})

func expectNewcomer(n *Newcomer) {
	GinkgoHelper()
	Expect(n.LabelledSeconds).To(BeNumerically(">", 0))
	Expect(n.CrowdRecords).To(BeNumerically(">=", 1), "the wave has begun")
	for _, turn := range []Turn{n.Recorded, n.Applied, n.Imported} {
		Expect(turn.Newcomer).To(BeNumerically(">", 0))
		Expect(turn.Alone).To(BeNumerically(">", 0))
		Expect(turn.ByCrowd).To(BeNumerically("~", turn.Newcomer/turn.CrowdP50, 1e-9))
		Expect(turn.ByAlone).To(BeNumerically("~", turn.Newcomer/turn.Alone, 1e-9))
	}
	Expect(n.Imported.Newcomer).To(BeNumerically(">", n.Applied.Newcomer))
	Expect(n.Imported.Alone).To(BeNumerically(">", n.Applied.Alone))
}

// expectScopes takes the five clusters of the benchmark, of which the first three are in the first namespace.
func expectScopes(s *Scopes) {
	GinkgoHelper()
	Expect(s.Clusters).To(Equal(3))
	Expect(s.AllClusters).To(Equal(5))
	Expect(s.Instances).To(HaveLen(3))
	for i, clusters := range []int{5, 3, 3} {
		scoped := s.Instances[i]
		for _, kind := range []string{"clusters.cluster.x-k8s.io", "clusters.management.cattle.io"} {
			Expect(scoped.Start[kind].Objects).To(Equal(clusters), "%s: %s", scoped.Name, kind)
			Expect(scoped.Start[kind].Bytes).To(BeNumerically(">", 0))
			Expect(scoped.Changes[kind].Events).To(Equal(clusters), "%s: %s", scoped.Name, kind)
		}
		Expect(scoped.Start[clusterSecretsKind].Objects).To(BeNumerically(">=", 6*clusters), "%s, and what Rancher makes elsewhere", scoped.Name)
		for _, kind := range []string{tokenSecrets, displayNames, "clusterregistrationtokens.management.cattle.io"} {
			Expect(scoped.Start[kind].Objects).To(Equal(5), "%s: %s", scoped.Name, kind)
		}
	}
	Expect(s.Instances[1].Start[clusterSecretsKind].Objects).To(Equal(6 * 3))
	Expect(s.Instances[1].Start["namespaces"].Objects).To(Equal(1))
	Expect(s.Instances[1].Ratios.Bytes).To(BeNumerically("<", 0.9))
}
