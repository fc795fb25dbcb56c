package edge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/check"
	"github.com/archelon-io/archelon/internal/plan"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/internal/status"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/env"
)

// Scenario: an administrator of the management cluster looks at an installation whose Rancher is elsewhere.
var _ = Describe("Commands where Rancher is in another cluster", Ordered, func() {
	var (
		rancher  *rancherCluster
		site     *management
		workload *env.ControlPlane
		one      *clusterv1.Cluster
	)
	// run runs a command in the management cluster and returns what it prints.
	run := func(ctx context.Context, cmd *cobra.Command, args ...string) (out, notes string, err error) {
		GinkgoHelper()
		raw, err := site.Kubeconfig()
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
	const on = "--feature-gates=managementv3-cluster=true,remote-rancher=true"
	const secret = "--rancher-kubeconfig=" + system + "/" + kubeconfig
	statuses := func(ctx context.Context, args ...string) (map[string]status.Cluster, []string) {
		GinkgoHelper()
		out, _, err := run(ctx, status.Command(), append([]string{"-A", secret, "-o", "json"}, args...)...)
		Expect(err).NotTo(HaveOccurred())
		var document struct {
			Items    []status.Cluster
			Problems []string
		}
		Expect(json.Unmarshal([]byte(out), &document)).To(Succeed())
		found := map[string]status.Cluster{}
		for _, item := range document.Items {
			found[item.Namespace+"/"+item.Name] = item
		}
		return found, document.Problems
	}
	findings := func(ctx context.Context, args ...string) (map[string]check.Finding, error) {
		GinkgoHelper()
		gates, err := feature.NewGates()
		Expect(err).NotTo(HaveOccurred())
		out, _, err := run(ctx, check.Command(setup.ControllersOf, gates), append([]string{secret, on, "-o", "json"}, args...)...)
		var document struct{ Items []check.Finding }
		Expect(json.Unmarshal([]byte(out), &document)).To(Succeed())
		found := map[string]check.Finding{}
		for _, f := range document.Items {
			found[f.ID] = f
		}
		return found, err
	}
	be := func(state check.State, message, remedy string) OmegaMatcher {
		return And(HaveField("State", state), HaveField("Message", ContainSubstring(message)), HaveField("Remedy", ContainSubstring(remedy)))
	}

	BeforeAll(func(ctx SpecContext) {
		rancher = newRancherCluster(ctx)
		workload = rancher.workload(ctx)
		site = newManagement(ctx, rancher, "site")
	})

	It("check says what is missing before the installation", func(ctx SpecContext) {
		found, err := findings(ctx)
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("remote-rancher-kubeconfig", be(check.Error, "not found", "ServiceAccount edge-"+site.UID)))
		Expect(found).NotTo(HaveKey("rancher-server-url"))
		Expect(found).NotTo(HaveKey("crd-clusters.management.cattle.io"))

		By("a kubeconfig that leads to where CAPI is")
		own, err := site.User("own", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		raw, err := site.KubeconfigFor(own)
		Expect(err).NotTo(HaveOccurred())
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: kubeconfig}, Data: map[string][]byte{"value": raw}}
		Expect(site.Client.Create(ctx, object)).To(Succeed())
		found, err = findings(ctx)
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("remote-rancher-kubeconfig", be(check.Error, "leads to this very cluster", "correct the kubeconfig")))

		By("one that runs a program")
		object.Data["value"] = []byte(strings.ReplaceAll(string(raw), "user:\n", "user:\n    exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, interactiveMode: Never}\n"))
		Expect(site.Client.Update(ctx, object)).To(Succeed())
		found, err = findings(ctx)
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("remote-rancher-kubeconfig", be(check.Error, "exec", "a token in line")))

		By("an administrator of Rancher's cluster, whom no policy limits, before the chart is there")
		admin, err := rancher.Management.User("admin", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		site.connect(ctx, admin)
		found, err = findings(ctx)
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("remote-rancher-kubeconfig", be(check.OK, "answers", "")))
		Expect(found).To(HaveKeyWithValue("remote-rancher-policy", be(check.Error, "No policy", "role=rancher-side and managementCluster.uid="+site.UID)))
		Expect(found).To(HaveKeyWithValue("remote-rancher-seat", be(check.Error, "is not there", "rancher.namespace")))
		Expect(found).To(HaveKeyWithValue("crd-clusters.management.cattle.io", be(check.OK, "serves v3", "")))
		Expect(found).To(HaveKeyWithValue("crd-clusters.cluster.x-k8s.io", be(check.OK, "serves v1beta2", "")))
	})

	It("check says that all is well with the chart on both sides, and who else is there", func(ctx SpecContext) {
		site.connect(ctx, rancher.admit(ctx, site.UID))
		var found map[string]check.Finding
		Eventually(func() (err error) { // An API server takes a moment to know of a policy.
			found, err = findings(ctx)
			return err
		}).Should(Succeed())
		for id, f := range found {
			if id != "rancher-server-url" { // It is a loopback address.
				Expect(f).To(HaveField("State", check.OK), id)
			}
		}
		Expect(found).To(HaveKey("remote-rancher-permissions"))
		Expect(found).To(HaveKey("rancher-certificate"))

		site.run(ctx)
		one = site.Create(ctx, "team-a", "one", workload)
		Eventually(site.Reason(ctx, one)).Should(Equal("True/Imported"))
		_, err := findings(ctx)
		Expect(err).NotTo(HaveOccurred(), "of the installation that runs")
		found, err = findings(ctx, "--instance=other", "--excluded-namespace=team-a")
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("remote-rancher-seat", be(check.Error, "Another Archelon serves this management cluster", "Uninstall the other")))

		By("without permissions in Rancher's cluster")
		roles := apart.Render(ctx, "edge", map[string]any{"role": "rancher-side", "managementCluster": map[string]any{"uid": site.UID}})
		for i := range roles {
			if roles[i].GetKind() == "ClusterRoleBinding" {
				Expect(rancher.Client.Delete(ctx, &roles[i])).To(Succeed())
			}
		}
		Eventually(func() map[string]check.Finding { found, _ := findings(ctx); return found }).Should(
			HaveKeyWithValue("remote-rancher-kubeconfig", be(check.Error, "may nothing in Rancher's cluster", "role=rancher-side")))
		rancher.admitted(ctx, site.UID, "again")
	})

	It("status shows each cluster as it is in both", func(ctx SpecContext) {
		Expect(rancher.Client.Create(ctx, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
			Name: "c-lef7t", Labels: map[string]string{apart.OriginLabel: site.UID, apart.OwnerNSLabel: "team-b", apart.OwnerLabel: "gone", uidLabel: "of-gone"},
		}})).To(Succeed())
		Expect(rancher.Client.Create(ctx, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
			Name: "c-zzzzz", Labels: map[string]string{apart.OriginLabel: "another", apart.OwnerNSLabel: "team-a", apart.OwnerLabel: "one", uidLabel: "of-another"},
		}})).To(Succeed())
		Eventually(func() map[string]status.Cluster { found, _ := statuses(ctx); return found }).Should(And(
			HaveLen(2),
			HaveKeyWithValue("team-a/one", And(HaveField("Imported", "True"), HaveField("InRancher", "connected"), HaveField("CAPICluster", ""))),
			HaveKeyWithValue("team-b/gone", And(HaveField("CAPICluster", "gone"), HaveField("RancherCluster", "v3/c-lef7t"), HaveField("InRancher", "waiting"))),
		))
		out, notes, err := run(ctx, status.Command(), "-A", secret)
		Expect(err).NotTo(HaveOccurred())
		Expect(notes).To(BeEmpty())
		Expect(out).To(MatchRegexp(`RANCHER CLUSTER +IN RANCHER +AGENT`))
		Expect(out).To(MatchRegexp(`team-b +gone +- +\(no CAPI cluster\) +- +v3/c-lef7t +waiting`))
		found, _ := statuses(ctx, "-n", "team-a", "--all-namespaces=false")
		Expect(found).To(HaveLen(1))

	})

	It("plan says what is then done, by what is in both clusters", func(ctx SpecContext) {
		changes := func(which string, args ...string) (verbs []string, reason string) {
			GinkgoHelper()
			out, _, err := run(ctx, plan.Command(), append([]string{which, secret, on, "-o", "json"}, args...)...)
			if !errors.Is(err, plan.ErrChanges) {
				Expect(err).NotTo(HaveOccurred())
			}
			var document struct{ Items []plan.Cluster }
			Expect(json.Unmarshal([]byte(out), &document)).To(Succeed())
			Expect(document.Items).To(HaveLen(1))
			for _, change := range document.Items[0].Changes {
				verbs = append(verbs, change.Verb+" "+change.Resource)
			}
			return verbs, document.Items[0].Reason
		}
		verbs, _ := changes("team-a/one")
		Expect(verbs).To(BeEmpty(), "it is imported")

		By("one that is about to be labelled")
		site.run(ctx)
		two := site.Create(ctx, "team-c", "two", workload, func(c *clusterv1.Cluster) { c.Labels = nil })
		verbs, _ = changes("team-c/two")
		Expect(verbs).NotTo(ContainElement("create clusters.management.cattle.io"))
		verbs, reason := changes("team-c/two", "--label=team-c/two")
		Expect(verbs).To(ContainElements("patch clusters.cluster.x-k8s.io", "create clusters.management.cattle.io"))
		Expect(reason).NotTo(Equal("DisplayNameTaken"))

		By("one whose display name another management cluster has")
		Expect(rancher.Client.Create(ctx, &managementv3.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: "c-yyyyy", Labels: map[string]string{apart.OriginLabel: "another", apart.OwnerNSLabel: "team-c", apart.OwnerLabel: "two"}},
			Spec:       managementv3.ClusterSpec{DisplayName: "two"},
		})).To(Succeed())
		verbs, reason = changes("team-c/two", "--label=team-c/two")
		Expect(reason).To(Equal("DisplayNameTaken"))
		Expect(verbs).NotTo(ContainElement("create clusters.management.cattle.io"))
		Expect(site.Client.Patch(ctx, two, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, apart.ImportLabel)))).To(Succeed())
		Eventually(site.Reason(ctx, two)).Should(Equal("False/DisplayNameTaken"))
		Expect(site.Client.Delete(ctx, two)).To(Succeed())

		By("one that is about to be taken out of Rancher")
		verbs, _ = changes("team-a/one", "--label=team-a/one=false")
		Expect(verbs).To(ContainElement("delete clusters.management.cattle.io"))
	})

	It("status shows a Rancher cluster that is not there", func(ctx SpecContext) {
		record := rancher.records(ctx, site, one)
		Expect(record).To(HaveLen(1))
		patched := record[0].DeepCopy()
		patched.Finalizers = nil
		Expect(rancher.Client.Patch(ctx, patched, client.MergeFrom(&record[0]))).To(Succeed())
		Expect(client.IgnoreNotFound(rancher.Client.Delete(ctx, patched))).To(Succeed())
		Eventually(func() map[string]status.Cluster { found, _ := statuses(ctx); return found }).Should(
			HaveKeyWithValue("team-a/one", HaveField("InRancher", "missing")))
	})

	It("status shows the CAPI clusters if Rancher's cluster does not answer, and does not hang", func(ctx SpecContext) {
		Expect(rancher.Management.Suspend()).To(Succeed())
		DeferCleanup(rancher.Management.Resume)
		begun := time.Now()
		found, problems := statuses(ctx, "--timeout=1s")
		Expect(time.Since(begun)).To(BeNumerically("<", time.Minute))
		Expect(found).To(HaveKeyWithValue("team-a/one", And(HaveField("Imported", "True"), HaveField("InRancher", ""))))
		Expect(problems).To(ConsistOf(ContainSubstring("Rancher's cluster did not answer within 1s")))
	})
})
