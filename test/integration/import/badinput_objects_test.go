package import_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
)

// spoilKubeconfig changes a good kubeconfig.
type spoilKubeconfig func(cluster *api.Cluster, user *api.AuthInfo)

func (w *badWorld) badKubeconfigs(night bool) {
	var (
		clusters  = map[string]*clusterv1.Cluster{}
		proof     string // a program that a kubeconfig names would make this file
		blackHole net.Listener
		found     map[string]symptoms
		requests  []auditv1.Event
		reached   int // tries that get as far as the API server
	)
	withoutCertificate := func(user *api.AuthInfo) { user.ClientCertificateData, user.ClientKeyData = nil, nil }
	spoils := map[string]spoilKubeconfig{
		"exec": func(_ *api.Cluster, user *api.AuthInfo) {
			withoutCertificate(user)
			user.Exec = &api.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{proof, marker}, InteractiveMode: api.NeverExecInteractiveMode}
		},
		"auth-provider": func(_ *api.Cluster, user *api.AuthInfo) {
			user.AuthProvider = &api.AuthProviderConfig{Name: "oidc", Config: map[string]string{"refresh-token": marker}}
		},
		"user-files": func(_ *api.Cluster, user *api.AuthInfo) {
			withoutCertificate(user)
			user.TokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		},
		"ca-file": func(cluster *api.Cluster, _ *api.AuthInfo) {
			cluster.CertificateAuthorityData, cluster.CertificateAuthority = nil, "/etc/ssl/"+marker
		},
		"impersonation": func(_ *api.Cluster, user *api.AuthInfo) { user.Impersonate = marker },
		"http":          func(cluster *api.Cluster, _ *api.AuthInfo) { cluster.Server = "http://user:" + marker + "@127.0.0.1:1" },
		"unverified": func(cluster *api.Cluster, _ *api.AuthInfo) {
			cluster.CertificateAuthorityData, cluster.InsecureSkipTLSVerify = nil, true
		},
		"proxy": func(cluster *api.Cluster, _ *api.AuthInfo) {
			cluster.ProxyURL = "ftp://user:" + marker + "@127.0.0.1:1"
		},
		"no-credentials": func(_ *api.Cluster, user *api.AuthInfo) { withoutCertificate(user) },
		"black-hole":     func(cluster *api.Cluster, _ *api.AuthInfo) { cluster.Server = "https://" + blackHole.Addr().String() },
		"nobody":         func(cluster *api.Cluster, _ *api.AuthInfo) { cluster.Server = "https://127.0.0.1:1" },
		"other-server-ca": func(cluster *api.Cluster, _ *api.AuthInfo) {
			cluster.CertificateAuthorityData = w.Management.Config.CAData
		},
		"expired": func(_ *api.Cluster, user *api.AuthInfo) {
			user.ClientCertificateData, user.ClientKeyData = expiredCertificate()
		},
		"unknown": func(_ *api.Cluster, user *api.AuthInfo) {
			withoutCertificate(user)
			user.Token = marker
		},
		"powerless": func(_ *api.Cluster, user *api.AuthInfo) {
			nobody, err := w.Lane.Plane.User("nobody")
			Expect(err).NotTo(HaveOccurred())
			user.ClientCertificateData, user.ClientKeyData = nobody.CertData, nobody.KeyData
		},
	}
	contents := map[string]map[string][]byte{
		"absent-secret": nil,
		"no-key":        {"kubeconfig": []byte(marker)},
		"no-yaml":       {"value": []byte("{[ " + marker)},
		"no-config":     {"value": []byte("just: " + marker)},
		"bomb":          {"value": []byte("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b] # " + marker)},
		"large-secret":  {"value": []byte(strings.Repeat("# "+marker+"\n", 60<<10))},
	}
	cases := part(night, []badInput{
		{"it does not exist", "absent-secret", "KubeconfigMissing", "check the control plane", once},
		{"its key does not exist", "no-key", "KubeconfigMissing", "Correct the Secret", once},
		{"it is no YAML", "no-yaml", "KubeconfigInvalid", "Correct the Secret", once},
		{"it is no kubeconfig", "no-config", "KubeconfigInvalid", "Set current-context", once},
		{"it has anchors", "bomb", "KubeconfigInvalid", "anchors, which are not supported. Correct the Secret", once},
		{"it is large", "large-secret", "KubeconfigInvalid", "Reduce it to one context", once},
		{"it wants a program run", "exec", "KubeconfigExecRefused", "Use a token or a client certificate", once},
		{"it names an auth-provider", "auth-provider", "KubeconfigAuthProviderRefused", "Use a token or a client certificate", once},
		{"its user refers to files", "user-files", "KubeconfigFilePathRefused", "Put their contents into", once},
		{"its CA is in a file", "ca-file", "KubeconfigFilePathRefused", "Put its content into certificate-authority-data", once},
		{"it impersonates", "impersonation", "KubeconfigImpersonationRefused", "Use the credentials of that user", once},
		{"its server has no TLS", "http", "KubeconfigInsecureRefused", "Use an https URL", once},
		{"its server is not verified", "unverified", "KubeconfigInsecureRefused", "Use certificate-authority-data", once},
		{"its proxy is not one", "proxy", "KubeconfigProxyRefused", "Correct it", once},
		{"its user has no credentials", "no-credentials", "KubeconfigCredentialsMissing", "Add a token, or a client certificate", once},
		{"its server never answers", "black-hole", "WorkloadTimeout", "Check its control plane", growing},
		{"its server is not there", "nobody", "WorkloadUnreachable", "Check its control plane", growing},
		{"its server has another CA", "other-server-ca", "WorkloadTLSNotTrusted", "Correct certificate-authority-data", growing},
		{"its certificate has expired", "expired", "WorkloadUnauthorized", "expired at 20.*. Renew the kubeconfig", growing},
		{"its user is not known (401)", "unknown", "WorkloadUnauthorized", "Renew the kubeconfig", growing},
		{"its user has no rights (403)", "powerless", "WorkloadForbidden", "Use the kubeconfig of a cluster-admin", growing},
	}, "absent-secret", "no-yaml", "exec", "user-files", "unverified", "nobody", "expired", "unknown", "powerless")
	BeforeAll(func(ctx context.Context) {
		proof = filepath.Join(GinkgoT().TempDir(), "proof")
		blackHole = newBlackHole(ctx)
		good, err := w.Lane.Plane.Kubeconfig() // a real API server refuses users
		Expect(err).NotTo(HaveOccurred())
		for name, spoil := range spoils {
			config, err := clientcmd.Load(good)
			Expect(err).NotTo(HaveOccurred())
			inUse := config.Contexts[config.CurrentContext]
			spoil(config.Clusters[inUse.Cluster], config.AuthInfos[inUse.AuthInfo])
			content, err := clientcmd.Write(*config)
			Expect(err).NotTo(HaveOccurred())
			contents[name] = map[string][]byte{"value": content}
		}
		clusters = w.begin(ctx, names(cases), func(cluster *clusterv1.Cluster) {
			if secret := w.kubeconfig(cluster); contents[cluster.Name] != nil {
				secret.Data = contents[cluster.Name]
				Expect(w.Client.Create(ctx, secret)).To(Succeed())
			}
		})
		w.release(ctx)
		found = w.examine(ctx, clusters, window, cases...)
		// A try begins in the management cluster, so all that led to these requests are known afterwards.
		requests = w.workloadRequests()
		tries := w.tries()
		for _, name := range []string{"expired", "unknown", "powerless"} {
			if cluster := clusters[name]; cluster != nil {
				reached += len(tries[client.ObjectKeyFromObject(cluster)])
			}
		}
		for name, cluster := range clusters {
			if secret := w.kubeconfig(cluster); contents[name] == nil {
				Expect(w.Client.Create(ctx, secret)).To(Succeed())
			} else {
				Expect(w.Client.Update(ctx, secret)).To(Succeed())
			}
		}
	})
	DescribeTable("tells what is wrong with it, and goes on when it is corrected", func(ctx context.Context, c badInput) {
		c.expect(found[c.name])
		Eventually(w.Reason(ctx, clusters[c.name])).Should(Equal("True/Imported"))
	}, entries(cases))
	if night {
		return
	}
	It("runs no program and asks little of workload clusters", func() {
		Expect(proof).NotTo(BeAnExistingFile())
		// Three kubeconfigs get as far as the API server, and a try of theirs ends with its first request, which reads.
		Expect(len(requests)).To(BeNumerically(">=", 6))
		Expect(len(requests)).To(BeNumerically("<=", reached), importing.Listing(requests))
		Expect(w.workloadWrites()).To(BeEmpty())
	})
}

// newBlackHole accepts connections and never says a word.
func newBlackHole(ctx context.Context) net.Listener {
	GinkgoHelper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	return listener
}

// expiredCertificate returns a client certificate that expired an hour ago, and its key. An API server
// looks at nothing else of it.
func expiredCertificate() (certificate, key []byte) {
	GinkgoHelper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	Expect(err).NotTo(HaveOccurred())
	encoded, err := x509.MarshalECPrivateKey(private)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

const (
	ofTurtles = "capicluster.turtles.cattle.io"
	// longName has one character more than a label can hold.
	longName = "a123456789b123456789c123456789d123456789e123456789f123456789g123"
)

// rejection is what the policy says in place of Rancher's webhook.
const rejection = "the quota of clusters is used up: ask the administrator of Rancher"

func (w *badWorld) badObjects() {
	type step func(context.Context, *clusterv1.Cluster)
	var (
		clusters = map[string]*clusterv1.Cluster{}
		requests = map[string][]auditv1.Event{}
		refusals []auditv1.Event // of records
		looked   time.Time
		found    map[string]symptoms
	)
	relabel := func(value string) step {
		return func(ctx context.Context, cluster *clusterv1.Cluster) {
			w.Choose(ctx, importing.Current(ctx, w.Client, cluster), value)
		}
	}
	annotate := func(key, value string) step {
		return func(ctx context.Context, cluster *clusterv1.Cluster) {
			w.Patch(ctx, importing.Current(ctx, w.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, key, value) })
		}
	}
	// record makes a v3 Rancher cluster that names the CAPI cluster, as change has it.
	record := func(change func(*managementv3.Cluster, *clusterv1.Cluster)) step {
		return func(ctx context.Context, cluster *clusterv1.Cluster) {
			record := &managementv3.Cluster{}
			record.GenerateName = "c-"
			record.Labels = map[string]string{importing.OwnedLabel: "", importing.OwnerLabel: cluster.Name, importing.OwnerNSLabel: cluster.Namespace}
			record.Spec.DisplayName = cluster.Name
			change(record, cluster)
			Expect(w.Client.Create(ctx, record)).To(Succeed())
		}
	}
	// deleteRecord deletes a Rancher cluster as a user does, and what holds it.
	deleteRecord := func(ctx context.Context, cluster *clusterv1.Cluster) {
		list := &managementv3.ClusterList{}
		Expect(w.Client.List(ctx, list, client.MatchingLabels{importing.OwnerLabel: cluster.Name})).To(Succeed())
		Expect(list.Items).NotTo(BeEmpty())
		found := &list.Items[0]
		w.Patch(ctx, found, func(o client.Object) {
			o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(name string) bool { return name == ofTurtles }))
		})
		Expect(w.Client.Delete(ctx, found)).To(Succeed())
	}
	none := func(context.Context, *clusterv1.Cluster) {}
	spoils := map[string]step{
		"label": relabel("perhaps"),
		"parent-label": func(ctx context.Context, cluster *clusterv1.Cluster) {
			w.Choose(ctx, importing.NamespaceOf(cluster.Namespace), "perhaps")
		},
		"env":       annotate("archelon.io/agent-env", "HTTPS_PROXY=http://user:"+marker+"@proxy:3128"),
		"env-name":  annotate("archelon.io/agent-env", `{"HTTPS PROXY": "`+marker+`"}`),
		"workspace": annotate("archelon.io/fleet-workspace", "../"+"Fleet"),
		"fleet":     annotate("archelon.io/fleet-workspace", "fleet-local"),
		"half":      record(func(r *managementv3.Cluster, _ *clusterv1.Cluster) { delete(r.Labels, importing.OwnerNSLabel) }),
		"other-uid": record(func(r *managementv3.Cluster, _ *clusterv1.Cluster) {
			r.Labels[importing.UIDLabel] = "00000000-0000-4000-8000-000000000000"
		}),
		"nobodys": record(func(*managementv3.Cluster, *clusterv1.Cluster) {}),
		"turtles": record(func(r *managementv3.Cluster, _ *clusterv1.Cluster) { r.Finalizers = []string{ofTurtles} }),
		"twice": func(ctx context.Context, cluster *clusterv1.Cluster) {
			ours := record(func(r *managementv3.Cluster, c *clusterv1.Cluster) { r.Labels[importing.UIDLabel] = string(c.UID) })
			annotate("cluster.x-k8s.io/paused", "")(ctx, cluster)
			ours(ctx, cluster)
			ours(ctx, cluster)
		},
		"rejected": none,
		longName:   none,
	}
	repairs := map[string]step{
		"label": relabel("true"),
		"parent-label": func(ctx context.Context, cluster *clusterv1.Cluster) {
			w.Choose(ctx, importing.Current(ctx, w.Client, importing.NamespaceOf(cluster.Namespace)), "true")
		},
		"env":       annotate("archelon.io/agent-env", "HTTPS_PROXY: http://user:"+marker+"@proxy:3128"),
		"env-name":  annotate("archelon.io/agent-env", `{"HTTPS_PROXY": "`+marker+`"}`),
		"workspace": annotate("archelon.io/fleet-workspace", "fleet-default"),
		"fleet":     annotate("archelon.io/fleet-workspace", "fleet-default"),
		"half":      deleteRecord, "other-uid": deleteRecord, "nobodys": deleteRecord, "turtles": deleteRecord, "twice": deleteRecord,
		"rejected": func(ctx context.Context, _ *clusterv1.Cluster) { w.admitAll(ctx) },
	}
	refused := func(name string) []auditv1.Event {
		if name == "rejected" {
			return refusals
		}
		return nil
	}
	cases := []badInput{
		{"the import label is no boolean", "label", "InvalidImportLabel", `^Label .* on the Cluster is "perhaps". Set it to`, never},
		{"the import label of the namespace is no boolean", "parent-label", "InvalidImportLabel", `^Label .* on the Namespace is "perhaps". Set it to`, never},
		{"the environment of the agent is no map", "env", "InvalidSetting", "Annotation archelon.io/agent-env .*: it must be a map", never},
		{"the environment of the agent has no names", "env-name", "InvalidSetting", "Annotation archelon.io/agent-env .*: its keys must be", never},
		{"the Fleet workspace is not for tenants", "fleet", "InvalidSetting", "Annotation archelon.io/fleet-workspace cannot be used: the Fleet workspace .* is not allowed", never},
		{"the Fleet workspace is no name", "workspace", "InvalidSetting", "Annotation archelon.io/fleet-workspace .*: it must be", never},
		{"the name does not fit into a label", longName, "NameTooLong", "64 characters, .* at most 63", never},
		{"a record has one of two owner labels", "half", "IncompleteOwnerLabels", "Complete its labels, or delete it in Rancher", never},
		{"a record is of another UID", "other-uid", "ForeignRancherCluster", "remove its owner labels", never},
		{"a record is of nobody", "nobodys", "ForeignRancherCluster", "remove its owner labels", never},
		{"a record is of Turtles", "turtles", "ManagedByTurtles", "Delete it in Rancher", never},
		{"there are two records", "twice", "DuplicateRancherClusters", "Delete all of them in Rancher but the one", never},
		{"Rancher's webhook refuses the record", "rejected", "RancherClusterRejected", rejection, never},
	}
	if importing.Isolated() {
		// A record that names no namespace is nothing that such an instance receives: see the limits in
		// docs/operations/sharding.md.
		delete(spoils, "half")
		delete(repairs, "half")
		cases = slices.DeleteFunc(cases, func(c badInput) bool { return c.name == "half" })
	}
	BeforeAll(func(ctx context.Context) {
		w.rejectCreation(ctx, "rejected")
		for name, spoil := range spoils {
			cluster := w.bareCluster(ctx, name, nil)
			clusters[name] = cluster
			if name != longName {
				Expect(w.Client.Create(ctx, w.kubeconfig(cluster))).To(Succeed())
			}
			spoil(ctx, cluster)
			if !strings.HasSuffix(name, "label") {
				relabel("true")(ctx, cluster)
			}
		}
		w.unannotate(ctx, clusters["twice"], "cluster.x-k8s.io/paused")
		found = w.examine(ctx, clusters, window, cases...)
		for name, cluster := range clusters {
			requests[name] = w.RequestsFor(cluster)
		}
		Eventually(func() int {
			refusals = slices.DeleteFunc(w.Requests(), func(e auditv1.Event) bool {
				// Somebody else may have been first to take a name (409).
				return e.Verb != "create" || e.ObjectRef == nil || e.ObjectRef.Resource != "clusters" || e.ResponseStatus.Code != http.StatusUnprocessableEntity
			})
			return len(refusals)
		}).Should(BeNumerically(">", 2), "tries to make the record")
		looked = time.Now()
		for name, repair := range repairs {
			repair(ctx, clusters[name])
		}
	})
	DescribeTable("tells what is wrong, and goes on when it is put right", func(ctx context.Context, c badInput) {
		c.expect(found[c.name])
		// The condition, the Event and what led to them; each try to make the record looks at the CAPI cluster first.
		Expect(len(requests[c.name])).To(BeNumerically("<=", 5+len(refused(c.name))), importing.Listing(requests[c.name]))
		if repairs[c.name] != nil {
			Eventually(w.Reason(ctx, clusters[c.name])).Should(Equal("True/Imported"))
			Expect(w.V3Records(ctx, clusters[c.name])).To(HaveLen(1))
		}
	}, entries(cases))
	It("asks for a refused record with growing pauses", func() {
		most := mostTries(looked.Sub(refusals[0].RequestReceivedTimestamp.Time), 200*time.Millisecond)
		Expect(len(refusals)).To(BeNumerically("<=", most), importing.Listing(refusals))
	})
	It("lets a cluster go that has never been imported", func(ctx context.Context) {
		Expect(w.Client.Delete(ctx, clusters[longName])).To(Succeed())
		Eventually(w.K(ctx).Get(clusters[longName])).Should(Satisfy(apierrors.IsNotFound))
	})
}

// rejectCreation has the API server refuse v3 Rancher clusters of a display name, and returns when it does.
func (w *badWorld) rejectCreation(ctx context.Context, displayName string) {
	GinkgoHelper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "rancher-quota"}}
	policy.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"management.cattle.io"}, APIVersions: []string{"v3"}, Resources: []string{"clusters"}},
			},
		}}},
		Validations: []admissionregistrationv1.Validation{{Expression: "object.spec.displayName != '" + displayName + "'", Message: rejection}},
	}
	Expect(w.Client.Create(ctx, policy)).To(Succeed())
	Expect(w.Client.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})).To(Succeed())
	probe := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-probe"}}
	probe.Spec.DisplayName = displayName
	Eventually(func() error { return w.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll) }).Should(MatchError(ContainSubstring(rejection)))
}

// admitAll ends rejectCreation.
func (w *badWorld) admitAll(ctx context.Context) {
	GinkgoHelper()
	Expect(w.Client.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "rancher-quota"}})).To(Succeed())
}

func (w *badWorld) unannotate(ctx context.Context, object client.Object, key string) {
	GinkgoHelper()
	w.Patch(ctx, importing.Current(ctx, w.Client, object), func(o client.Object) {
		annotations := o.GetAnnotations()
		delete(annotations, key)
		o.SetAnnotations(annotations)
	})
}
