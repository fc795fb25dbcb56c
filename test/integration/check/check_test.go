package check_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/check"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/test/env"
	rancherstandin "github.com/archelon-io/archelon/test/standin/rancher"
)

// What is told of who checks, by the audit log.
const (
	administrator = "administrator"
	nobody        = "nobody"
)

var _ = Describe("archelon check", Ordered, func() {
	var (
		plane   *env.ControlPlane
		admin   client.Client
		users   map[string]*rest.Config
		rancher *httptest.Server
	)

	// run returns the findings by their names.
	run := func(ctx context.Context, user string, args ...string) (map[string]check.Finding, error) {
		GinkgoHelper()
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		raw, err := plane.KubeconfigFor(users[user])
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(kubeconfig, raw, 0o600)).To(Succeed())
		gates, err := feature.NewGates()
		Expect(err).NotTo(HaveOccurred())
		cmd, out := check.Command(setup.ControllersOf, gates), &bytes.Buffer{}
		cmd.SetArgs(append([]string{"--kubeconfig=" + kubeconfig, "--output=json"}, args...))
		cmd.SetOut(out)
		cmd.SetErr(GinkgoWriter)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		err = cmd.ExecuteContext(ctx)
		var document struct{ Items []check.Finding }
		if out.Len() > 0 {
			Expect(json.Unmarshal(out.Bytes(), &document)).To(Succeed())
		}
		found := map[string]check.Finding{}
		for _, f := range document.Items {
			Expect(found).NotTo(HaveKey(f.ID), "each is told of once")
			found[f.ID] = f
		}
		return found, err
	}
	be := func(state check.State, words string) OmegaMatcher {
		return And(HaveField("State", state), HaveField("Message", ContainSubstring(words)))
	}
	create := func(ctx context.Context, objects ...client.Object) {
		GinkgoHelper()
		for _, object := range objects {
			Expect(admin.Create(ctx, object)).To(Succeed())
		}
	}
	bound := func(name string, subject rbacv1.Subject, to string) client.Object {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: to},
		}
	}

	BeforeAll(func(ctx SpecContext) {
		crds, err := env.CAPICRDs()
		Expect(err).NotTo(HaveOccurred())
		ranchers, err := rancherstandin.CRDs(true)
		Expect(err).NotTo(HaveOccurred())
		plane, err = env.Start(ctx, env.Options{Name: "check", CRDs: append(crds, ranchers...), Audit: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
		known, err := scheme.New()
		Expect(err).NotTo(HaveOccurred())
		admin, err = client.New(plane.Config, client.Options{Scheme: known})
		Expect(err).NotTo(HaveOccurred())
		users = map[string]*rest.Config{}
		for _, name := range []string{administrator, nobody} {
			users[name], err = plane.User(name)
			Expect(err).NotTo(HaveOccurred())
		}
		rancher = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "pong") }))
		DeferCleanup(rancher.Close)
		create(ctx, bound("administrator", rbacv1.Subject{Kind: "User", Name: administrator}, "cluster-admin"))
	})

	It("says that Rancher is not there yet, and that the exit code is to say so", func(ctx SpecContext) {
		found, err := run(ctx, administrator)
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("rancher-server-url", be(check.Error, "setting server-url does not exist yet")))
		Expect(found).To(HaveKeyWithValue("turtles", be(check.OK, "does not run")))
		Expect(found).To(HaveKeyWithValue("instances", be(check.OK, "No other instance")))
		Expect(found).To(HaveKeyWithValue("admission-policies", be(check.OK, "are served")))
		Expect(found).To(HaveKeyWithValue("kubernetes-version", be(check.OK, "Kubernetes v1.")))
		Expect(found).To(HaveKeyWithValue("crd-clusters.cluster.x-k8s.io", be(check.OK, "serves v1beta2")))
	})

	It("says that all is well, and of gates what they need besides", func(ctx SpecContext) {
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rancher.Certificate().Raw})
		for name, value := range map[string]string{"server-url": rancher.URL, "cacerts": string(ca), "agent-tls-mode": "strict"} {
			create(ctx, &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
		}
		found, err := run(ctx, administrator)
		Expect(err).NotTo(HaveOccurred())
		for id, f := range found {
			if id != "rancher-server-url" { // It is a loopback address.
				Expect(f).To(HaveField("State", check.OK), id)
			}
		}
		Expect(found).To(HaveKeyWithValue("rancher-server-url", be(check.Warning, "workload clusters hardly find")))
		Expect(found).To(HaveKeyWithValue("rancher-certificate", be(check.OK, "certificate is trusted")))

		found, err = run(ctx, administrator, "--feature-gates=host-claim=true,oci-cluster-identity=true")
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("crd-baremetalhosts.metal3.io", be(check.Error, "does not exist")))
		Expect(found).To(HaveKeyWithValue("crd-hostclaims.metal3.io", be(check.Warning, "is not there yet")))
		Expect(found).To(HaveKeyWithValue("crd-ociclusteridentities.infrastructure.cluster.x-k8s.io", be(check.Error, "does not exist")))

		By("a certificate that agents would not trust")
		patch := func(ca []byte) {
			GinkgoHelper()
			setting := &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: "cacerts"}}
			change, err := json.Marshal(map[string]string{"value": string(ca)})
			Expect(err).NotTo(HaveOccurred())
			Expect(admin.Patch(ctx, setting, client.RawPatch(types.MergePatchType, change))).To(Succeed())
		}
		patch(plane.Config.CAData)
		found, err = run(ctx, administrator)
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("rancher-certificate", be(check.Error, "is not signed by the CAs in Rancher's setting cacerts")))
		patch(ca)
	})

	It("tells a Turtles that is parked from one that imports, and knows other instances", func(ctx SpecContext) {
		const namespace = "cattle-turtles-system"
		labels := map[string]string{"app": "turtles"}
		turtles := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rancher-turtles-controller-manager"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "turtles"}}},
				},
			},
		}
		holder, lasts, now := "one", int32(3600), metav1.NewMicroTime(time.Now())
		other := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: "other-leader-election", Labels: map[string]string{"archelon.io/instance": "other"},
				Annotations: map[string]string{"archelon.io/scope": "*"},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &lasts, RenewTime: &now},
		}
		create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, turtles, other)
		found, err := run(ctx, administrator, "--turtles-parked")
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("turtles", be(check.Error, "imports clusters with the same label")))
		Expect(found).To(HaveKeyWithValue("instances", be(check.Error, "would get no namespace: cattle-turtles-system/other has all namespaces")))

		turtles.Spec.Template.Spec.Containers[0].Args = []string{
			"--feature-gates=agent-tls-mode=true,fleet-integration=true", "--watch-filter=parked",
		}
		Expect(admin.Update(ctx, turtles)).To(Succeed())
		turtles.Status.ObservedGeneration = turtles.Generation
		Expect(admin.Status().Update(ctx, turtles)).To(Succeed())
		found, err = run(ctx, administrator, "--turtles-parked", "--namespace=team-a")
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(HaveKeyWithValue("turtles", be(check.OK, "is parked")))
		Expect(found).To(HaveKeyWithValue("turtles-fleet", be(check.Warning, "on the Fleet Clusters of all Rancher clusters")))
		Expect(found).To(HaveKeyWithValue("instances", be(check.OK, "No other instance has any of namespaces team-a")))
		Expect(admin.Delete(ctx, turtles)).To(Succeed())
		Expect(admin.Delete(ctx, other)).To(Succeed())
	})

	It("says what the caller and what a ServiceAccount may not, and what it could not see", func(ctx SpecContext) {
		found, err := run(ctx, nobody)
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("permissions", be(check.Error, "The caller lacks: ")))
		for _, id := range []string{"turtles", "instances", "rancher-server-url", "crd-clusters.cluster.x-k8s.io"} {
			Expect(found).To(HaveKeyWithValue(id, be(check.Warning, "could not be read")))
			Expect(found[id].Remedy).To(ContainSubstring("Check again as somebody who may"))
		}

		const account = "--service-account=archelon-system/archelon"
		found, err = run(ctx, administrator, account)
		Expect(err).To(MatchError(check.ErrMissing))
		Expect(found).To(HaveKeyWithValue("permissions", be(check.Error, "ServiceAccount archelon-system/archelon lacks: ")))
		create(ctx, bound("manager", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "archelon-system", Name: "archelon"}, "cluster-admin"))
		found, err = run(ctx, administrator, account)
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(HaveKeyWithValue("permissions", be(check.OK, "ServiceAccount archelon-system/archelon has all")))
	})

	It("fails otherwise where nobody answers", func(ctx SpecContext) {
		_, err := run(ctx, administrator, "--server=https://127.0.0.1:1", "--timeout=5s")
		Expect(err).To(MatchError(ContainSubstring("asking the management cluster for its version")))
		Expect(errors.Is(err, check.ErrMissing)).To(BeFalse())
	})

	It("has written nothing", func() {
		requests, err := plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		seen := 0
		for _, request := range requests {
			if request.User.Username != administrator && request.User.Username != nobody {
				continue
			}
			seen++
			if request.Verb == "create" {
				Expect(request.ObjectRef.Resource).To(BeElementOf("selfsubjectaccessreviews", "subjectaccessreviews"), request.RequestURI)
				continue
			}
			Expect(request.Verb).To(BeElementOf("get", "list"), request.RequestURI)
			if request.ObjectRef != nil {
				Expect(request.ObjectRef.Resource).NotTo(Equal("secrets"))
			}
		}
		Expect(seen).To(BeNumerically(">", 100))
	})
})
