package rancher_test

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// newToken creates a registration token as an importer may.
func newToken(ctx context.Context, namespace, name, cluster string) {
	GinkgoHelper()
	crt := object(tokenGVK, namespace, name)
	crt.Object["spec"] = map[string]any{"clusterName": cluster}
	Eventually(func(ctx context.Context) error { return management.Create(ctx, crt) }).
		WithContext(ctx).Should(Succeed(), "once the namespace exists")
	DeferCleanup(remove, crt)
}

func tokenField(namespace, name string, path ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		crt, err := get(ctx, management, tokenGVK, namespace, name)
		return field(crt, path...), err
	}
}

var restrictedToken = regexp.MustCompile(`^[bcdfghjklmnpqrstvwxz2456789]{54}$`)

var _ = Describe("A registration token", func() {
	It("12: is kept in a Secret with a placeholder in the URL", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		newCluster(ctx, "c-crt01")
		newToken(ctx, "c-crt01", "mine", "c-crt01")
		Eventually(tokenField("c-crt01", "mine", "status", "manifestUrl")).WithContext(ctx).
			Should(Equal(s.URL() + "/v3/import/{token}_c-crt01.yaml"))
		crt, err := get(ctx, management, tokenGVK, "c-crt01", "mine")
		Expect(err).NotTo(HaveOccurred())
		Expect(field(crt, "status", "tokenSecretName")).To(Equal("crt-token-mine"))
		Expect(field(crt, "status", "token")).To(BeEmpty())
		Expect(field(crt, "status", "command")).To(Equal("kubectl apply -f " + field(crt, "status", "manifestUrl")))
		expires, err := time.Parse(time.RFC3339, field(crt, "status", "expiresAt"))
		Expect(err).NotTo(HaveOccurred())
		Expect(expires).To(BeTemporally("~", time.Now().Add(30*24*time.Hour), time.Minute))
		secret := &corev1.Secret{}
		Expect(management.Get(ctx, client.ObjectKey{Namespace: "c-crt01", Name: "crt-token-mine"}, secret)).To(Succeed())
		Expect(restrictedToken.Match(secret.Data["token"])).To(BeTrue())
		Expect(secret.OwnerReferences).To(HaveExactElements(HaveField("UID", crt.GetUID())))
	})

	It("12: is plain in an old Rancher, before the URL", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[1], func(o *rancher.Options) { o.Timings.URL = 5 * time.Second })
		newCluster(ctx, "c-crt02")
		newToken(ctx, "default", "elsewhere", "c-crt02")
		var token string
		Eventually(func(g Gomega, ctx context.Context) {
			crt, err := get(ctx, management, tokenGVK, "default", "elsewhere")
			g.Expect(err).NotTo(HaveOccurred())
			token = field(crt, "status", "token")
			g.Expect(restrictedToken.MatchString(token)).To(BeTrue())
			g.Expect(field(crt, "status", "manifestUrl")).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())
		Eventually(tokenField("default", "elsewhere", "status", "manifestUrl")).WithContext(ctx).
			Should(Equal(s.URL() + "/v3/import/" + token + "_c-crt02.yaml"))
		Expect(s.RotateToken(ctx, "c-crt02")).NotTo(Succeed(), "there is no rotation")
	})

	It("13: takes scheme and host of server-url, and waits for both that and its cluster", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		Expect(s.SetServerURL(ctx, "")).To(Succeed())
		cluster := newCluster(ctx, "c-crt03")
		newToken(ctx, "default", "orphan", "c-none1")
		Eventually(tokenField("c-crt03", "default-token", "status", "tokenSecretName")).WithContext(ctx).Should(Equal("crt-token-default-token"))
		// Each change of the cluster is a look at the token, so nothing may be left to change.
		version := ""
		Eventually(func(g Gomega, ctx context.Context) {
			before := version
			g.Expect(management.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
			version = cluster.GetResourceVersion()
			g.Expect(version).To(Equal(before))
			g.Expect(conditions(cluster)).To(HaveKey("Connected"))
		}).WithContext(ctx).MustPassRepeatedly(50).Should(Succeed())
		Expect(s.SetServerURL(ctx, "https://rancher.example.test:8443/some/path")).To(Succeed())
		Consistently(tokenField("c-crt03", "default-token", "status", "manifestUrl")).WithContext(ctx).Should(BeEmpty())
		Expect(change(ctx, cluster, annotation("wake", "up"))).To(Succeed())
		Eventually(tokenField("c-crt03", "default-token", "status", "manifestUrl")).WithContext(ctx).
			Should(Equal("https://rancher.example.test:8443/v3/import/{token}_c-crt03.yaml"))
		// The event of that write is a look at the token, too.
		Eventually(func(g Gomega, ctx context.Context) {
			before := version
			crt, err := get(ctx, management, tokenGVK, "c-crt03", "default-token")
			g.Expect(err).NotTo(HaveOccurred())
			version = crt.GetResourceVersion()
			g.Expect(version).To(Equal(before))
		}).WithContext(ctx).MustPassRepeatedly(50).Should(Succeed())
		Expect(s.SetServerURL(ctx, "https://moved.example.test")).To(Succeed())
		Consistently(tokenField("c-crt03", "default-token", "status", "manifestUrl")).WithContext(ctx).Should(ContainSubstring("rancher.example.test"))
		Expect(change(ctx, cluster, annotation("wake", "again"))).To(Succeed())
		Eventually(tokenField("c-crt03", "default-token", "status", "manifestUrl")).WithContext(ctx).
			Should(Equal("https://moved.example.test/v3/import/{token}_c-crt03.yaml"))
		Expect(tokenField("default", "orphan", "status", "manifestUrl")(ctx)).To(BeEmpty())
		newCluster(ctx, "c-none1")
		Eventually(tokenField("default", "orphan", "status", "manifestUrl")).WithContext(ctx).Should(HaveSuffix("_c-none1.yaml"))
	})

	It("14: rotates with a grace period and an unchanged URL", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0], func(o *rancher.Options) { o.Timings.TokenGrace = 10 * time.Second })
		newCluster(ctx, "c-crt04")
		before := manifestURL(ctx, "c-crt04", "default-token")
		template, err := tokenField("c-crt04", "default-token", "status", "manifestUrl")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.RotateToken(ctx, "c-crt04")).To(Succeed())
		after := manifestURL(ctx, "c-crt04", "default-token")
		Expect(after).NotTo(Equal(before))
		Expect(tokenField("c-crt04", "default-token", "status", "manifestUrl")(ctx)).To(Equal(template))
		for _, u := range []string{before, after} {
			Expect(fetch(ctx, s.CACert(), u)).To(HaveField("Status", 200))
		}
		Eventually(func(ctx context.Context) (answer, error) { return fetch(ctx, s.CACert(), before) }).
			WithContext(ctx).Should(HaveField("Status", 400))
		Expect(fetch(ctx, s.CACert(), after)).To(HaveField("Status", 200))
	})

	It("is left empty while tokens are held", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		Expect(s.HoldTokens(ctx, true)).To(Succeed())
		newCluster(ctx, "c-held1")
		Eventually(clusterConditions("c-held1")).WithContext(ctx).Should(HaveKey("Connected"))
		Consistently(tokenField("c-held1", "default-token", "status", "tokenSecretName")).WithContext(ctx).Should(BeEmpty())
		Expect(s.HoldTokens(ctx, false)).To(Succeed())
		manifestURL(ctx, "c-held1", "default-token")
	})
})

var _ = Describe("The import endpoint", func() {
	for _, g := range generations() {
		It("15, 16: checks path and token ("+g.name+")", func(ctx SpecContext) {
			s := startGeneration(ctx, g)
			newCluster(ctx, "c-http1")
			newCluster(ctx, "c-http2")
			newToken(ctx, "default", "foreign", "c-http1")
			good := manifestURL(ctx, "c-http1", "default-token")
			for path, want := range map[string]int{
				good:                                   200,
				manifestURL(ctx, "default", "foreign"): 400,
				manifestURL(ctx, "c-http2", "default-token"):                          200,
				strings.Replace(good, "c-http1", "c-http2", 1):                        400,
				strings.Replace(good, "c-http1", "c-nope1", 1):                        400,
				s.URL() + "/v3/import/wrong_c-http1.yaml":                             400,
				s.URL() + "/v3/import/{token}_c-http1.yaml":                           400,
				s.URL() + "/v3/import/" + url.PathEscape("{token}") + "_c-http1.yaml": 400,
				s.URL() + "/v3/import/no-cluster.yaml":                                404,
				strings.TrimSuffix(good, ".yaml"):                                     404,
				good + "?authImage=%20bad":                                            400,
			} {
				got, err := fetch(ctx, s.CACert(), path)
				Expect(err).NotTo(HaveOccurred())
				Expect(got.Status).To(Equal(want), "case of status %d", want)
				if want == 400 && !strings.Contains(path, "authImage") {
					Expect(got.Body).To(HavePrefix("cluster not found or invalid token"))
				}
				Expect(got.ContentType).To(HavePrefix("text/plain"))
			}
			Expect(s.ImportRequests()).To(ContainElement(And(HaveField("Cluster", "c-http1"), HaveField("Status", 200))))
		})
	}

	It("15: serves anything without the token check, except a placeholder", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[1], func(o *rancher.Options) { o.StrictImport = false })
		Expect(fetch(ctx, s.CACert(), s.URL()+"/v3/import/anything_c-nope2.yaml")).To(HaveField("Status", 200))
		Expect(fetch(ctx, s.CACert(), s.URL()+"/v3/import/{token}_c-nope2.yaml")).To(HaveField("Status", 400))
	})

	It("15: serves Rancher's documents in Rancher's order", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		newCluster(ctx, "c-docs1", spec("agentEnvVars", []any{map[string]any{"name": "HTTP_PROXY", "value": "http://proxy:3128"}}),
			spec("agentImageOverride", "ignored/in-download:1"))
		manifest := download(ctx, s, "c-docs1")
		Expect(manifest).To(HavePrefix("\n---\n"), "an empty document leads")
		Expect(manifest).To(ContainSubstring("---\n\n---"), "and there are blank ones")
		var names []string
		for _, u := range documents(manifest) {
			name := u.GetName()
			if strings.HasPrefix(name, "cattle-credentials-") {
				name = "cattle-credentials-"
			}
			names = append(names, strings.Join([]string{u.GetKind(), u.GetNamespace(), name}, "/"))
		}
		Expect(names).To(Equal([]string{
			"ClusterRole//proxy-clusterrole-kubeapiserver",
			"ClusterRoleBinding//proxy-role-binding-kubernetes-master",
			"Namespace//cattle-system",
			"ServiceAccount/cattle-system/cattle",
			"ClusterRoleBinding/cattle-system/cattle-admin-binding",
			"Secret/cattle-system/cattle-credentials-",
			"ClusterRole//cattle-admin",
			"Deployment/cattle-system/cattle-cluster-agent",
			"Service/cattle-system/cattle-cluster-agent",
		}))
		Expect(manifest).To(ContainSubstring("http://proxy:3128"))
		Expect(manifest).NotTo(ContainSubstring("ignored/in-download"))
		Expect(manifest).NotTo(ContainSubstring("CATTLE_FEATURES"))
	})

	It("16, 17: is trusted through setting cacerts only, also after a change of the CA", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		old := s.CACert()
		Expect(fetch(ctx, old, s.URL()+"/ping")).To(And(HaveField("Status", 200), HaveField("Body", "pong")))
		_, err := fetch(ctx, nil, s.URL()+"/ping")
		Expect(err).To(MatchError(ContainSubstring("certificate")))
		Expect(s.RotateCA(ctx)).To(Succeed())
		_, err = fetch(ctx, old, s.URL()+"/ping")
		Expect(err).To(MatchError(ContainSubstring("certificate")))
		setting, err := get(ctx, management, settingGVK, "", "cacerts")
		Expect(err).NotTo(HaveOccurred())
		got, err := fetch(ctx, []byte(field(setting, "value")), s.URL()+"/v3/settings/cacerts")
		Expect(err).NotTo(HaveOccurred())
		Expect(got.ContentType).To(Equal("application/json"))
		Expect(got.Body).To(ContainSubstring(`"value":"-----BEGIN CERTIFICATE`))
	})

	It("fails as it is told to, for one cluster or for all", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		newCluster(ctx, "c-fault")
		good := manifestURL(ctx, "c-fault", "default-token")
		whole := download(ctx, s, "c-fault")
		try := func(f rancher.Fault) (answer, error) {
			s.ClearFaults()
			s.SetFault(f)
			return fetch(ctx, s.CACert(), good)
		}
		Expect(try(rancher.Fault{Kind: rancher.FaultStatus, Status: 503})).To(HaveField("Status", 503))
		Expect(try(rancher.Fault{Kind: rancher.FaultStatus, Cluster: "c-other"})).To(HaveField("Status", 200))
		Expect(try(rancher.Fault{Kind: rancher.FaultStatus, Cluster: "c-fault"})).To(HaveField("Status", 500))
		Expect(try(rancher.Fault{Kind: rancher.FaultHTML})).To(And(HaveField("Status", 200), HaveField("ContentType", HavePrefix("text/html"))))
		Expect(try(rancher.Fault{Kind: rancher.FaultEmpty})).To(And(HaveField("Status", 200), HaveField("Body", "")))
		Expect(try(rancher.Fault{Kind: rancher.FaultCut})).To(HaveField("Body", whole[:len(whole)/2]))
		Expect(try(rancher.Fault{Kind: rancher.FaultLarge, Bytes: 3 << 20})).To(HaveField("Body", HaveLen(len(whole)+3<<20)))
		Expect(try(rancher.Fault{Kind: rancher.FaultNotYAML})).To(HaveField("Body", ContainSubstring("not yaml")))
		Expect(try(rancher.Fault{Kind: rancher.FaultForeignKind})).To(HaveField("Body", ContainSubstring("kind: Pod")))
		Expect(try(rancher.Fault{Kind: rancher.FaultNoSecret})).To(HaveField("Body", And(
			Not(ContainSubstring("kind: Secret")), ContainSubstring("kind: Deployment"))))
		Expect(try(rancher.Fault{Kind: rancher.FaultRedirect, Location: "https://elsewhere.test/"})).To(HaveField("Status", 302))
		Expect(try(rancher.Fault{Kind: rancher.FaultSlow, Delay: 50 * time.Millisecond})).To(HaveField("Body", whole))
		for _, kind := range []rancher.FaultKind{rancher.FaultTruncated, rancher.FaultDrop} {
			_, err := try(rancher.Fault{Kind: kind})
			Expect(err).To(HaveOccurred(), string(kind))
		}
		s.ClearFaults()
		s.SetFault(rancher.Fault{Kind: rancher.FaultStatus, Times: 1})
		Expect(fetch(ctx, s.CACert(), good)).To(HaveField("Status", 500))
		Expect(fetch(ctx, s.CACert(), good)).To(HaveField("Status", 200), "the fault was for one request")
	})

	It("hangs or never ends until the client has enough", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		newCluster(ctx, "c-hang1")
		good := manifestURL(ctx, "c-hang1", "default-token")
		for _, kind := range []rancher.FaultKind{rancher.FaultHang, rancher.FaultEndless} {
			s.SetFault(rancher.Fault{Kind: kind})
			short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			got, err := fetch(short, s.CACert(), good)
			cancel()
			if err == nil { // endless, but read up to the client's own limit
				Expect(len(got.Body)).To(BeNumerically(">=", 64<<20))
			}
			Expect(kind == rancher.FaultEndless || err != nil).To(BeTrue())
		}
	})
})
