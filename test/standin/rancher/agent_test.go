package rancher_test

import (
	"context"
	"encoding/base64"
	"net"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// credentialName returns the Secret that the agent's Deployment names, and whether the
// Deployment has the features of one that Rancher applied.
func credentialName(ctx context.Context) (name string, features bool, err error) {
	deployment := clusterAgent()
	if err := workload.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
		return "", false, err
	}
	for _, e := range deployment.Spec.Template.Spec.Containers[0].Env {
		name = map[bool]string{true: e.Value, false: name}[e.Name == "CATTLE_CREDENTIAL_NAME"]
		features = features || e.Name == "CATTLE_FEATURES"
	}
	return name, features, nil
}

var _ = Describe("The agent", func() {
	It("18: connects only with Deployment and Secret, as what Rancher applied, and only when Rancher lets it", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		newCluster(ctx, "c-agent")
		manifest := download(ctx, s, "c-agent")
		connected := func() bool { _, ok := s.Connected("c-agent"); return ok }

		apply(ctx, manifest, not(isKind("Secret")))
		Consistently(connected).Should(BeFalse(), "without its Secret")
		s.HoldConnect(true)
		apply(ctx, manifest, isKind("Secret"))
		Consistently(connected).Should(BeFalse(), "while connections are held")
		s.HoldConnect(false)
		Eventually(connected).Should(BeTrue())
		Eventually(clusterConditions("c-agent")).WithContext(ctx).Should(HaveKeyWithValue("Connected", "True"))
		_, features, err := credentialName(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(features).To(BeTrue())
	})

	It("18: has only registered as long as Rancher has not applied it", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0], func(o *rancher.Options) { o.Timings.Deploy = time.Hour })
		newCluster(ctx, "c-regis")
		apply(ctx, download(ctx, s, "c-regis"), nil)
		Eventually(clusterConditions("c-regis")).WithContext(ctx).Should(And(
			HaveKeyWithValue("Provisioned", "True"), HaveKeyWithValue("Connected", "False"), HaveKeyWithValue("Ready", "False/Disconnected")))
		Consistently(clusterConditions("c-regis")).WithContext(ctx).Should(And(
			HaveKeyWithValue("Connected", "False"), HaveKeyWithValue("Waiting", "Unknown"), Not(HaveKey("AgentDeployed"))))
		_, connected := s.Connected("c-regis")
		Expect(connected).To(BeFalse())
	})

	for reason, spoil := range map[string]func(*corev1.Secret){
		"a token that Rancher does not know": func(s *corev1.Secret) { s.Data["token"] = []byte(strings.Repeat("b", 54)) },
		"the URL of another server":          func(s *corev1.Secret) { s.Data["url"] = []byte("https://127.0.0.1:1") },
	} {
		It("18: stays out with "+reason, func(ctx SpecContext) {
			s := startGeneration(ctx, generations()[0])
			newCluster(ctx, "c-stale")
			manifest := download(ctx, s, "c-stale")
			apply(ctx, manifest, func(u *unstructured.Unstructured) bool {
				return u.GetKind() == "Namespace" || u.GetKind() == "Secret"
			})
			name := secretIn(manifest)
			secret := &corev1.Secret{}
			Expect(workload.Get(ctx, client.ObjectKey{Namespace: "cattle-system", Name: name}, secret)).To(Succeed())
			spoil(secret)
			Expect(workload.Update(ctx, secret)).To(Succeed())
			apply(ctx, manifest, isKind("Deployment"))
			Consistently(func() bool { _, ok := s.Connected("c-stale"); return ok }).Should(BeFalse())
		})
	}

	It("18: stays out with the checksum of a CA that Rancher no longer uses", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		newCluster(ctx, "c-oldca")
		manifest := download(ctx, s, "c-oldca")
		Expect(s.RotateCA(ctx)).To(Succeed())
		apply(ctx, manifest, nil)
		Consistently(func() bool { _, ok := s.Connected("c-oldca"); return ok }).Should(BeFalse())
	})

	for _, g := range generations() {
		It("19, 20: is reported step by step and applied again by Rancher ("+g.name+")", func(ctx SpecContext) {
			s := startGeneration(ctx, g)
			versions := record(ctx, "c-steps")
			cluster := join(ctx, s, "c-steps")
			Eventually(func() []string { return firstSeen(versions()) }).Should(Equal([]string{
				"driver", "apiEndpoint", "caCert", "serviceAccountTokenSecret",
				"Provisioned", "Pending", "AgentTlsStrictCheck", "SystemAccountCreated", "AgentDeployed",
				"Connected", "Ready", "Waiting", "version", "nodeCount",
			}), "each in a write of its own")
			lost := slices.IndexFunc(versions(), func(u *unstructured.Unstructured) bool { return conditions(u)["Ready"] == "False/Disconnected" })
			first := slices.IndexFunc(versions(), func(u *unstructured.Unstructured) bool { return conditions(u)["Connected"] == "True" })
			Expect(lost).To(And(BeNumerically(">=", 0), BeNumerically("<", first)), "it counts as disconnected before it was ever connected")
			for _, version := range versions() {
				if field(version, "status", "driver") == "" {
					Expect(version.GetAnnotations()).NotTo(HaveKey("lifecycle.cattle.io/create.cluster-provisioner-controller"))
				}
			}
			live, err := get(ctx, management, clusterGVK, "", "c-steps")
			Expect(err).NotTo(HaveOccurred())
			Expect(field(live, "status", "driver")).To(Equal("imported"))
			Expect(field(live, "status", "apiEndpoint")).To(Equal(strings.TrimSuffix(workloadPlane.Config.Host, "/")))
			Expect(field(live, "status", "version", "gitVersion")).To(HavePrefix("v1."))
			Expect(live.GetAnnotations()).To(And(
				HaveKeyWithValue("provisioner.cattle.io/ke-driver-update", "updated"),
				HaveKeyWithValue("lifecycle.cattle.io/create.cluster-provisioner-controller", "true"),
				HaveKeyWithValue("io.cattle.agent.registration-token-hash", HaveLen(10))))

			Eventually(func() int { return s.Reapplies("c-steps") }).Should(Equal(1))
			name, features, err := credentialName(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(features).To(BeTrue())
			Expect(name).NotTo(Equal(secretIn(download(ctx, s, "c-steps"))))
			secret := &corev1.Secret{}
			Expect(workload.Get(ctx, client.ObjectKey{Namespace: "cattle-system", Name: name}, secret)).To(Succeed())
			Expect(string(secret.Data["namespace"])).To(Equal("c-steps"))
			_, err = get(ctx, management, tokenGVK, "c-steps", "system")
			Expect(err).NotTo(HaveOccurred())
			Consistently(func() int { return s.Reapplies("c-steps") }).Should(Equal(1))
			Expect(conditions(live)).To(HaveKeyWithValue("Connected", "True"))

			Expect(change(ctx, cluster, annotation("io.cattle.agent.force.deploy", "true"), spec("desiredAgentImage", "other/agent:2"))).To(Succeed())
			Eventually(func() int { return s.Reapplies("c-steps") }).Should(Equal(2))
			deployment := clusterAgent()
			Expect(workload.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
			Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(Equal("other/agent:2"))
			Eventually(func(ctx context.Context) (map[string]string, error) {
				u, err := get(ctx, management, clusterGVK, "", "c-steps")
				return u.GetAnnotations(), err
			}).WithContext(ctx).Should(HaveKeyWithValue("io.cattle.agent.force.deploy", "false"))

			proxy := []any{map[string]any{"name": "HTTP_PROXY", "value": "http://proxy:3128"}}
			Expect(change(ctx, cluster, spec("agentEnvVars", proxy))).To(Succeed())
			Eventually(func() int { return s.Reapplies("c-steps") }).Should(Equal(3), "its environment changed")
			Consistently(func() int { return s.Reapplies("c-steps") }).Should(Equal(3))
			Expect(clusterConditions("c-steps")(ctx)).To(HaveKeyWithValue("Connected", "True"))
		})

		It("21: is reported as gone, and comes back from the downloaded manifest only when Rancher is told to deploy it ("+g.name+")", func(ctx SpecContext) {
			s := startGeneration(ctx, g)
			cluster := join(ctx, s, "c-drop1")
			removeAgent(ctx)
			lost := And(HaveKeyWithValue("Connected", "False"), HaveKeyWithValue("Ready", "False/Disconnected"),
				HaveKeyWithValue("Waiting", "True"), HaveKeyWithValue("AgentDeployed", "True"))
			Eventually(clusterConditions("c-drop1")).WithContext(ctx).Should(lost)
			apply(ctx, download(ctx, s, "c-drop1"), nil)
			Consistently(clusterConditions("c-drop1")).WithContext(ctx).Should(lost)
			Expect(s.Reapplies("c-drop1")).To(Equal(1), "Rancher believes it deployed")
			Expect(change(ctx, cluster, annotation("io.cattle.agent.force.deploy", "true"))).To(Succeed())
			Eventually(clusterConditions("c-drop1")).WithContext(ctx).Should(And(
				HaveKeyWithValue("Connected", "True"), HaveKeyWithValue("Ready", "True")))
			Expect(s.Reapplies("c-drop1")).To(Equal(2))
		})
	}

	It("21: comes back by itself when the manifest is applied over what Rancher applied", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		join(ctx, s, "c-over1")
		Expect(workload.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("cattle-system"))).To(Succeed())
		s.RemoveWorkload("downstream")
		Eventually(clusterConditions("c-over1")).WithContext(ctx).Should(HaveKeyWithValue("Connected", "False"))
		Expect(s.AddWorkload("downstream", workloadPlane.Config)).To(Succeed())
		applyAgain(ctx, download(ctx, s, "c-over1"))
		Eventually(clusterConditions("c-over1")).WithContext(ctx).Should(HaveKeyWithValue("Connected", "True"))
		Expect(s.Reapplies("c-over1")).To(Equal(1), "CATTLE_FEATURES stayed")
	})

	It("21: is gone from its cluster when that of another cluster, or of another Rancher, is applied over it", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		is := func(status string) types.GomegaMatcher { return HaveKeyWithValue("Connected", status) }
		join(ctx, s, "c-tak01")
		newCluster(ctx, "c-tak02")
		applyAgain(ctx, download(ctx, s, "c-tak02"))
		Eventually(clusterConditions("c-tak02")).WithContext(ctx).Should(is("True"))
		Eventually(clusterConditions("c-tak01")).WithContext(ctx).Should(is("False"))

		here, elsewhere := base64.StdEncoding.EncodeToString([]byte(s.URL())), base64.StdEncoding.EncodeToString([]byte("https://127.0.0.1:1"))
		applyAgain(ctx, strings.ReplaceAll(download(ctx, s, "c-tak01"), here, elsewhere))
		Eventually(clusterConditions("c-tak02")).WithContext(ctx).Should(is("False"))
		Consistently(clusterConditions("c-tak01")).WithContext(ctx).Should(is("False"))
	})

	It("21: is gone when it is scaled to zero", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		join(ctx, s, "c-zero1")
		Eventually(func(ctx context.Context) error {
			deployment := clusterAgent()
			if err := workload.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
				return err
			}
			deployment.Spec.Replicas = ptr.To[int32](0)
			return workload.Update(ctx, deployment)
		}).WithContext(ctx).Should(Succeed())
		Eventually(clusterConditions("c-zero1")).WithContext(ctx).Should(HaveKeyWithValue("Connected", "False"))
	})

	It("loses Rancher when it is down, and finds it again under the same address", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		join(ctx, s, "c-down1")
		address := strings.TrimPrefix(s.URL(), "https://")
		s.Down()
		_, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		Expect(err).To(MatchError(ContainSubstring("refused")))
		_, ok := s.Connected("c-down1")
		Expect(ok).To(BeFalse())
		late := newCluster(ctx, "c-down2")
		Consistently(func(ctx context.Context) ([]string, error) {
			u, err := get(ctx, management, clusterGVK, "", late.GetName())
			return u.GetFinalizers(), err
		}).WithContext(ctx).Should(BeEmpty(), "nothing reacts")
		Expect(s.Up(ctx)).To(Succeed())
		Expect(s.URL()).To(HaveSuffix(address))
		Eventually(func() bool { _, ok := s.Connected("c-down1"); return ok }).Should(BeTrue())
		Eventually(clusterConditions("c-down2")).WithContext(ctx).Should(HaveKeyWithValue("Connected", "False"))
	})
})

// secretIn returns the name of the credentials in a manifest.
func secretIn(manifest string) string {
	GinkgoHelper()
	for _, u := range documents(manifest) {
		if u.GetKind() == "Secret" {
			return u.GetName()
		}
	}
	Fail("no Secret in the manifest")
	return ""
}

// firstSeen returns what an agent's contact brings, in the order in which the versions show it;
// two things that came in one write are joined by "+".
func firstSeen(versions []*unstructured.Unstructured) []string {
	fields := []string{"driver", "apiEndpoint", "caCert", "serviceAccountTokenSecret", "version", "nodeCount"}
	kinds := []string{"Provisioned", "Pending", "Connected", "AgentTlsStrictCheck", "Ready", "Waiting", "SystemAccountCreated", "AgentDeployed"}
	seen := map[string]bool{}
	var out []string
	for _, version := range versions {
		var fresh []string
		status, _ := version.Object["status"].(map[string]any)
		for _, name := range fields {
			if _, ok := status[name]; ok && !seen[name] {
				seen[name] = true
				fresh = append(fresh, name)
			}
		}
		for _, kind := range kinds {
			if conditions(version)[kind] == "True" && !seen[kind] {
				seen[kind] = true
				fresh = append(fresh, kind)
			}
		}
		if len(fresh) > 0 {
			out = append(out, strings.Join(fresh, "+"))
		}
	}
	return out
}
