package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A small benchmark", func() {
	DescribeTable("imports, counts and writes its results", func(arguments ...string) {
		var stdout, stderr bytes.Buffer
		results := filepath.Join(GinkgoT().TempDir(), "results.json")
		code := command(append(arguments, "--clusters=5", "--namespaces=2", "--black-holes=0.2", "--agent-delay=50ms",
			"--idle=500ms", "--settle=500ms", "--timeout=1m", "--json="+results), &stdout, &stderr)
		Expect(code).To(BeZero(), "%s", &stderr)

		raw, err := os.ReadFile(results)
		Expect(err).NotTo(HaveOccurred())
		found := report{}
		Expect(json.Unmarshal(raw, &found)).To(Succeed())
		Expect(found.Runs).To(HaveLen(1))
		run := found.Runs[0]
		Expect(run.Clusters).To(Equal(5))
		Expect(run.BlackHoles).To(Equal(1))
		Expect(run.Records).To(Equal(5))
		Expect(run.AppliedSeconds).To(BeNumerically(">", 0))
		Expect(run.Imported.P50).To(BeNumerically(">=", run.Applied.P50+(50*time.Millisecond).Seconds()))
		Expect(run.Applied.Max).To(BeNumerically(">=", run.Applied.P50))
		Expect(run.Management.ByResource).To(HaveKeyWithValue(HavePrefix("create clusters."), 5))
		Expect(run.Workload.ByResource).To(HaveKeyWithValue("patch deployments", 4))
		Expect(run.Downloads.Total).To(Equal(4))
		Expect(run.Processes).To(HaveKey("archelon"))
		Expect(run.Processes).To(HaveKey("kube-apiserver"))
		Expect(run.PeakAnonMiB).To(BeNumerically(">", 0))
		Expect(run.PeakMiB).To(BeNumerically(">", run.PeakAnonMiB))
		Expect(stdout.String()).To(ContainSubstring("label to agent applied"))
		Expect(stdout.String()).To(MatchRegexp(`patch deployments\s+1\.00`))
	},
		Entry("as v1, with the light Rancher", "--strategy=v1"),
		Entry("as v3, with the stand-in", "--rancher=standin"),
	)
})
