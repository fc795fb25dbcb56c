package hostclaim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// stranded returns what makes tenants that may do nothing in the other cluster.
func stranded(worlds func() (here, there *world), name string) func(context.Context) *tenant {
	tenants := 0
	return func(ctx context.Context) *tenant {
		GinkgoHelper()
		here, there := worlds()
		tenants++
		t := &tenant{here: here, there: there, namespace: fmt.Sprintf("%s-%d", name, tenants)}
		here.namespace(ctx, t.namespace)
		return t
	}
}

// hostileSpecs are about kubeconfigs and servers of strangers.
func hostileSpecs(worlds func() (here, there *world)) {
	newStranded := stranded(worlds, "hostile")

	It("uses no kubeconfig that could run programs, read files or lend an identity (attack P)", func(ctx SpecContext) {
		t := newStranded(ctx)
		marker := filepath.Join(GinkgoT().TempDir(), "ran")
		for name, kubeconfig := range map[string][]byte{
			"exec": write(func(c *clientcmdapi.Config) {
				c.AuthInfos["x"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
					Command: "touch", Args: []string{marker}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never",
				}}
			}),
			"auth-provider": write(func(c *clientcmdapi.Config) {
				c.AuthInfos["x"] = &clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "gcp"}}
			}),
			"token-file": write(func(c *clientcmdapi.Config) {
				c.AuthInfos["x"].TokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
			}),
			"certificate": write(func(c *clientcmdapi.Config) {
				c.AuthInfos["x"].ClientCertificate, c.AuthInfos["x"].ClientKey = "/etc/c", "/etc/k"
			}),
			"authority":   write(func(c *clientcmdapi.Config) { c.Clusters["x"].CertificateAuthority = "/etc/ca" }),
			"impersonate": write(func(c *clientcmdapi.Config) { c.AuthInfos["x"].Impersonate = "system:admin" }),
			"insecure":    write(func(c *clientcmdapi.Config) { c.Clusters["x"].InsecureSkipTLSVerify = true }),
			"plain":       write(func(c *clientcmdapi.Config) { c.Clusters["x"].Server = "http://127.0.0.1:1" }),
			"proxy":       write(func(c *clientcmdapi.Config) { c.Clusters["x"].ProxyURL = "file:///etc/passwd" }),
			"local-proxy": write(func(c *clientcmdapi.Config) { c.Clusters["x"].ProxyURL = "http://127.0.0.1:1" }),
			// It is a name until it is dialled.
			"named-proxy": write(func(c *clientcmdapi.Config) { c.Clusters["x"].ProxyURL = "http://１２７.0.0.１:1" }),
			"no-place":    write(func(c *clientcmdapi.Config) { c.Contexts["x"].Namespace = "" }),
			"no-text":     []byte("{{{"),
		} {
			t.credentials(ctx, name, kubeconfig)
			t.here.claim(ctx, t.namespace, name, "kind: remote\ncredentials: "+name+"\nargs: {real-kind: baremetal}\n")
			Eventually(t.synced(ctx, name)).Should(HavePrefix("False CredentialsInvalid"), name)
			t.remove(ctx, name)
			Eventually(t.synced(ctx, name)).Should(Equal("NotFound"), "nothing was created, so it goes")
		}
		_, err := os.Stat(marker)
		Expect(os.IsNotExist(err)).To(BeTrue(), "a program was run")
	})

	It("reads credentials of its own namespace alone", func(ctx SpecContext) {
		t, other := newStranded(ctx), newStranded(ctx)
		s := newStranger(nil)
		other.credentials(ctx, "remote", s.kubeconfig("t0ken-of-another"))
		t.claim(ctx, "c", "")
		Eventually(t.synced(ctx, "c")).Should(HavePrefix("False CredentialsMissing"))
		t.here.claim(ctx, t.namespace, "path", "kind: remote\ncredentials: "+other.namespace+"/remote\nargs: {real-kind: baremetal}\n")
		Eventually(t.synced(ctx, "path")).Should(HavePrefix("False ConfigurationInvalid"))
		Consistently(s.heard).Should(BeEmpty())
	})

	It("sends nobody more than the kubeconfig has, and follows nobody elsewhere (attack Q)", func(ctx SpecContext) {
		t := newStranded(ctx)
		target := newStranger(nil)
		s := newStranger(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, target.server.URL+req.URL.Path, http.StatusTemporaryRedirect)
		})
		t.credentials(ctx, "remote", s.kubeconfig("t0ken-of-the-tenant"))
		t.claim(ctx, "c", "")
		Eventually(t.synced(ctx, "c")).Should(HavePrefix("False RemoteUnreachable"))
		Expect(s.heard()).To(Equal([]string{"Bearer t0ken-of-the-tenant"}))
		Expect(target.heard()).To(BeEmpty())
		By("leading to the cluster that it is in")
		t.credentials(ctx, "remote", write(func(c *clientcmdapi.Config) {
			c.Clusters["x"].Server, c.Clusters["x"].CertificateAuthorityData = t.here.plane.Config.Host, t.here.plane.Config.CAData
		}))
		Eventually(t.synced(ctx, "c")).Should(HavePrefix("False CredentialsInvalid"))
	})

	It("says what strangers do, and not in their words (attack R)", func(ctx SpecContext) {
		t := newStranded(ctx)
		for name, tc := range map[string]struct {
			answer http.HandlerFunc
			want   string
		}{
			"forbids":  {refusal(403, "Forbidden", "user cannot get resource: t0ken-of-the-tenant"), "False CredentialsInvalid"},
			"denies":   {refusal(401, "Unauthorized", "t0ken-of-the-tenant"), "False CredentialsInvalid"},
			"fails":    {refusal(500, "InternalError", "t0ken-of-the-tenant"), "False RemoteUnreachable"},
			"rubbish":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("t0ken-of-the-tenant")) }, "False RemoteUnreachable"},
			"giant":    {func(w http.ResponseWriter, _ *http.Request) { giant(w) }, "False RemoteUnreachable"},
			"breaks":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "False RemoteUnreachable"},
			"unknowns": {http.NotFound, "False RemoteRejected"},
		} {
			s := newStranger(tc.answer)
			t.credentials(ctx, name, s.kubeconfig("t0ken-of-the-tenant"))
			t.here.claim(ctx, t.namespace, name, "kind: remote\ncredentials: "+name+"\nargs: {real-kind: baremetal}\n")
			Eventually(t.synced(ctx, name)).Should(HavePrefix(tc.want), name)
			Expect(t.synced(ctx, name)()).NotTo(ContainSubstring("t0ken"))
		}
		events := &eventsv1.EventList{}
		Expect(t.here.admin.List(ctx, events, client.InNamespace(t.namespace))).To(Succeed())
		Expect(fmt.Sprint(events.Items)).NotTo(ContainSubstring("t0ken"))
		Expect(t.here.printed.String()).NotTo(ContainSubstring("t0ken"))
		claims := &metal3v1.HostClaimList{}
		Expect(t.here.admin.List(ctx, claims, client.InNamespace(t.namespace))).To(Succeed())
		Expect(fmt.Sprint(claims.Items)).NotTo(ContainSubstring("t0ken"))
	})

	It("creates nothing of which the other cluster would drop a part", func(ctx SpecContext) {
		t := newStranded(ctx)
		var mu sync.Mutex
		created := map[string]bool{}
		s := newStranger(func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodGet {
				name := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":%q,"kind":"hostclaims"}}`, name)
				return
			}
			mu.Lock()
			created[req.Method+" "+req.URL.Query().Get("dryRun")] = true
			mu.Unlock()
			sent := map[string]any{}
			_ = json.NewDecoder(req.Body).Decode(&sent)
			if spec, ok := sent["spec"].(map[string]any); ok {
				delete(spec, "kind") // as the CRD of Metal3 does
			}
			raw, _ := json.Marshal(sent)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(raw)
		})
		t.credentials(ctx, "remote", s.kubeconfig("t0ken-of-the-tenant"))
		t.claim(ctx, "c", "")
		Eventually(t.synced(ctx, "c")).Should(And(HavePrefix("False RemoteDropsFields"), ContainSubstring("kind")))
		mu.Lock()
		defer mu.Unlock()
		Expect(created).To(Equal(map[string]bool{"POST All": true}))
	})

	It("follows a cluster as long as a claim uses it", func(ctx SpecContext) {
		t := newStranded(ctx)
		s := newStranger(refusal(403, "Forbidden", "user cannot get resource"))
		t.credentials(ctx, "remote", s.kubeconfig("t0ken-of-the-tenant"))
		t.claim(ctx, "first", "")
		t.claim(ctx, "second", "")
		Eventually(s.watched).Should(Equal(2), "one of HostClaims and one of Secrets for both claims")
		t.remove(ctx, "first")
		Eventually(t.synced(ctx, "first")).Should(Equal("NotFound"))
		Consistently(s.watched, "300ms").Should(Equal(2))
		t.remove(ctx, "second")
		Eventually(s.watched).Should(BeZero())
	})

	It("goes by the kind of a claim, not by its label (attack S)", func(ctx SpecContext) {
		t := newStranded(ctx)
		s := newStranger(nil)
		t.credentials(ctx, "remote", s.kubeconfig("t0ken-of-the-tenant"))
		claim := unstructuredClaim(t.namespace, "forged")
		claim.SetLabels(map[string]string{"hostclaims.metal3.io/kind": "remote"})
		claim.Object["spec"] = map[string]any{"kind": "baremetal", "credentials": "remote", "args": map[string]any{"real-kind": "baremetal"}}
		t.here.create(ctx, claim)
		Consistently(func() any { return t.here.getClaim(ctx, t.namespace, "forged").Finalizers }).Should(BeEmpty())
		Expect(s.heard()).To(BeEmpty())
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "remote"}}
		Expect(t.here.admin.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		Expect(secret.Finalizers).To(BeEmpty())
	})
}

// giant answers with more than anybody should read.
func giant(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"kind":"HostClaim","apiVersion":"metal3.io/v1alpha1","metadata":{"annotations":{`))
	for i := range 4000 {
		_, _ = fmt.Fprintf(w, `"a%d":%q,`, i, strings.Repeat("x", 1000))
	}
	_, _ = w.Write([]byte(`"z":"z"}}}`))
}
