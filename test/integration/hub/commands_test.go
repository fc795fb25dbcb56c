package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/check"
	"github.com/archelon-io/archelon/internal/plan"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/internal/status"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/builder"
)

// Scenario: an administrator of Rancher's cluster looks at all management clusters, one of which does not answer.
var _ = Describe("Commands for many management clusters", Label("nightly"), Ordered, func() {
	var (
		rancher        *hub
		east, west     *management
		ofEast, ofWest *clusterv1.Cluster
	)
	const on = "--feature-gates=managementv3-cluster=true,management-clusters=true"
	// run runs a command in Rancher's cluster and returns what it prints.
	run := func(ctx context.Context, cmd *cobra.Command, args ...string) (out, notes string, err error) {
		GinkgoHelper()
		raw, err := rancher.Management.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		Expect(os.WriteFile(path, raw, 0o600)).To(Succeed())
		printed, said := &bytes.Buffer{}, &bytes.Buffer{}
		cmd.SetArgs(append([]string{"--kubeconfig=" + path}, args...))
		cmd.SetOut(printed)
		cmd.SetErr(said)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		err = cmd.ExecuteContext(ctx)
		GinkgoWriter.Println(printed.String(), said.String())
		return printed.String(), said.String(), err
	}
	type document struct {
		Items              []status.Cluster
		ManagementClusters []status.ManagementCluster
		Problems           []string
	}
	statuses := func(ctx context.Context, args ...string) document {
		GinkgoHelper()
		out, _, err := run(ctx, status.Command(), append([]string{"-A", "--management-clusters-namespace=" + system, "-o", "json"}, args...)...)
		Expect(err).NotTo(HaveOccurred())
		var d document
		Expect(json.Unmarshal([]byte(out), &d)).To(Succeed())
		return d
	}
	findings := func(ctx context.Context, args ...string) (map[string]check.Finding, error) {
		GinkgoHelper()
		gates, err := feature.NewGates()
		Expect(err).NotTo(HaveOccurred())
		out, _, err := run(ctx, check.Command(setup.Controllers(), gates), append([]string{on, "-o", "json"}, args...)...)
		var d struct{ Items []check.Finding }
		Expect(json.Unmarshal([]byte(out), &d)).To(Succeed())
		found := map[string]check.Finding{}
		for _, f := range d.Items {
			found[f.ID] = f
		}
		return found, err
	}
	be := func(state check.State, message, remedy string) OmegaMatcher {
		return And(HaveField("State", state), HaveField("Message", ContainSubstring(message)), HaveField("Remedy", ContainSubstring(remedy)))
	}
	site := func(name, reason string, answers bool) OmegaMatcher {
		return And(HaveField("DisplayName", name), HaveField("Reason", reason), HaveField("Answers", answers))
	}

	BeforeAll(func(ctx SpecContext) {
		rancher = newHub(ctx)
		east, west = newManagement(ctx, rancher, "east"), newManagement(ctx, rancher, "west")
	})

	It("check says that none is registered, and what stands in the way of each that is", func(ctx SpecContext) {
		found, err := findings(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(HaveKeyWithValue("management-clusters", be(check.Warning, "archelon-system: 0.", "Register one")))
		Expect(found).NotTo(HaveKey("turtles"))
		Expect(found).NotTo(HaveKey("crd-clusters.cluster.x-k8s.io"))

		rancher.register(ctx, "east", east.kubeconfig)
		nobody, err := west.User("nobody")
		Expect(err).NotTo(HaveOccurred())
		rancher.register(ctx, "west", west.kubeconfigFor(nobody))
		rancher.register(ctx, "twin", east.kubeconfig)
		rancher.register(ctx, "hole", newBlackHole().kubeconfig(east))
		rancher.register(ctx, "bad", []byte("nonsense"))
		own, err := rancher.Management.KubeconfigFor(rancher.Management.Config)
		Expect(err).NotTo(HaveOccurred())
		rancher.register(ctx, "own", own)
		begun := time.Now()
		found, err = findings(ctx)
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(time.Since(begun)).To(BeNumerically("<", 30*time.Second))
		Expect(found).To(HaveKeyWithValue("management-cluster-east", be(check.OK, "has UID "+east.UID, "")))
		Expect(found["management-cluster-east"].Message).To(ContainSubstring("The hub has not connected to it yet"))
		Expect(found).To(HaveKeyWithValue("management-cluster-west", be(check.Error, "lacks permissions", "role=management-side")))
		Expect(found).To(HaveKeyWithValue("management-cluster-twin", be(check.Error, "Secret east leads to the same management cluster", "elete one of them")))
		Expect(found).To(HaveKeyWithValue("management-cluster-hole", be(check.Warning, "does not answer", "network")))
		Expect(found).To(HaveKeyWithValue("management-cluster-bad", be(check.Error, "kubeconfig", "")))
		Expect(found).To(HaveKeyWithValue("management-cluster-own", be(check.Error, "the cluster that Rancher runs in", "elete this Secret")))
		for id, f := range found {
			if f.State != check.OK {
				Expect(f.Remedy).NotTo(BeEmpty(), id)
			}
		}
		for _, name := range []string{"twin", "bad", "own", "hole"} {
			rancher.end(ctx, name)
		}
		rancher.register(ctx, "west", west.kubeconfig)
	})

	It("check says that all is well, and that a Secret leads elsewhere than at first", func(ctx SpecContext) {
		rancher.run(ctx)
		ofEast, ofWest = east.Create(ctx, "team-a", "one", west.ControlPlane), west.Create(ctx, "team-a", "one", east.ControlPlane)
		Eventually(east.Reason(ctx, ofEast)).Should(Equal("True/Imported"))
		Eventually(west.Reason(ctx, ofWest)).Should(Equal("True/Imported"))
		found, err := findings(ctx)
		Expect(err).NotTo(HaveOccurred())
		for id, f := range found {
			if id != "rancher-server-url" { // It is a loopback address.
				Expect(f).To(HaveField("State", check.OK), id)
			}
		}
		Expect(found).To(HaveKey("management-cluster-west"))

		rancher.register(ctx, "west", east.kubeconfig)
		found, err = findings(ctx)
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("management-cluster-west", be(check.Error, "leads to another management cluster than before", "")))
		rancher.register(ctx, "west", west.kubeconfig)
	})

	It("status shows the clusters of all, told apart", func(ctx SpecContext) {
		Eventually(func() []status.ManagementCluster { return statuses(ctx).ManagementClusters }).Should(
			HaveExactElements(site("east", "Engaged", true), site("west", "Engaged", true)))
		d := statuses(ctx)
		Expect(d.Items).To(HaveExactElements(
			And(HaveField("ManagementCluster", "east"), HaveField("Name", "one"), HaveField("Imported", "True"), HaveField("InRancher", "connected")),
			And(HaveField("ManagementCluster", "west"), HaveField("Name", "one"), HaveField("Imported", "True"), HaveField("InRancher", "connected")),
		))
		Expect(d.Problems).To(BeEmpty())
		Expect(d.ManagementClusters[0].Said).To(Equal("Engaged"))
		Expect(*d.ManagementClusters[0].CAPIClusters).To(Equal(1))
		Expect(d.ManagementClusters[0].RancherClusters).To(Equal(1))

		out, notes, err := run(ctx, status.Command(), "-A", "--management-clusters-namespace="+system)
		Expect(err).NotTo(HaveOccurred())
		Expect(notes).To(BeEmpty())
		Expect(out).To(MatchRegexp(`(?s)east +team-a +one +True.*west +team-a +one +True.*\n\nMANAGEMENT CLUSTER +SECRET.*east +east +yes +Engaged +Engaged \w+ ago +1 +1`))

		out, _, err = run(ctx, status.Command(), "-A", "--management-clusters-namespace="+system, "-o", "yaml", "--not-imported")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(ContainSubstring("items: []"))
		Expect(out).To(ContainSubstring("displayName: west"))
	})

	It("plan looks at one management cluster", func(ctx SpecContext) {
		changes := func(management string, args ...string) map[string][]string {
			GinkgoHelper()
			out, _, err := run(ctx, plan.Command(), append([]string{on, "--management-cluster=" + management, "-o", "json"}, args...)...)
			if !errors.Is(err, plan.ErrChanges) {
				Expect(err).NotTo(HaveOccurred())
			}
			var d struct{ Items []plan.Cluster }
			Expect(json.Unmarshal([]byte(out), &d)).To(Succeed())
			found := map[string][]string{}
			for _, item := range d.Items {
				found[item.Namespace+"/"+item.Name] = []string{}
				for _, change := range item.Changes {
					found[item.Namespace+"/"+item.Name] = append(found[item.Namespace+"/"+item.Name], change.Verb+" "+change.Resource)
				}
			}
			return found
		}
		Expect(changes("east")).To(Equal(map[string][]string{"team-a/one": {}}), "it is imported, and that of the other one is not seen")
		Expect(changes("west", "--label=team-a/one=false")).To(HaveKeyWithValue("team-a/one", ContainElement("delete clusters.management.cattle.io")))
		Expect(east.Client.Create(ctx, apart.Namespace("team-b"))).To(Succeed())
		two := builder.Cluster("team-b", "two")
		Expect(east.Client.Create(ctx, two)).To(Succeed())
		builder.ControlPlaneUp(two)
		Expect(east.Client.Status().Update(ctx, two)).To(Succeed())
		Expect(changes("east", "--label=team-b")["team-b/two"]).To(ContainElement("create clusters.management.cattle.io"))
		Expect(changes("west")).NotTo(HaveKey("team-b/two"))

		for want, args := range map[string][]string{
			"needs --management-cluster": {on}, "no Secret north in namespace archelon-system": {on, "--management-cluster=north"},
			"is for gate management-clusters": {"--management-cluster=east"},
		} {
			_, _, err := run(ctx, plan.Command(), args...)
			Expect(err).To(MatchError(ContainSubstring(want)))
		}
		Expect(east.Client.Delete(ctx, builder.Cluster("team-b", "two"))).To(Succeed())
	})

	It("status shows what Rancher has of one that does not answer, and hangs on none", func(ctx SpecContext) {
		Expect(west.Suspend()).To(Succeed())
		DeferCleanup(west.Resume)
		begun := time.Now()
		d := statuses(ctx, "--timeout=2s")
		Expect(time.Since(begun)).To(BeNumerically("<", 10*time.Second))
		Expect(d.ManagementClusters).To(HaveExactElements(site("east", "Engaged", true), And(
			site("west", "Unreachable", false), HaveField("Message", ContainSubstring("does not answer")), HaveField("CAPIClusters", BeNil()),
		)))
		Expect(d.Items).To(HaveExactElements(
			And(HaveField("ManagementCluster", "east"), HaveField("Imported", "True"), HaveField("InRancher", "connected")),
			And(HaveField("ManagementCluster", "west"), HaveField("Name", "one"), HaveField("CAPICluster", "unseen"), HaveField("RancherCluster", HavePrefix("v3/"))),
		))
		out, _, err := run(ctx, status.Command(), "-A", "--management-clusters-namespace="+system, "--timeout=2s")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(MatchRegexp(`west +west +no +Unreachable`))
		Expect(out).To(ContainSubstring("(not seen)"))
		Expect(west.Resume()).To(Succeed())
		Eventually(west.K(ctx).Get(ofWest)).Should(Succeed())
	})

	It("status shows what is left of one that is registered no more", func(ctx SpecContext) {
		rancher.end(ctx, "west")
		Expect(statuses(ctx).Items).To(ContainElement(And(HaveField("ManagementCluster", west.UID), HaveField("CAPICluster", "unseen"))))
	})
})
