package identity_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/outcome"
)

const compartmentID = "ocid1.compartment.oc1..aaaacluster"

var _ = Describe("Clusters that OCI is asked about", func() {
	It("refuses what OCI refuses, follows the cluster, asks where an administrator allows it, and needs no more permissions", func(ctx SpecContext) {
		var compartments sync.Map
		var down atomic.Bool
		oci := httptest.NewTLSServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
			id := strings.TrimPrefix(request.URL.Path, "/20160918/compartments/")
			parent, found := compartments.Load(id)
			switch {
			case down.Load():
				answer.WriteHeader(http.StatusServiceUnavailable)
			case !strings.Contains(request.Header.Get("Authorization"), `keyId="ocid1.tenancy.oc1..aaaatenancy/ocid1.user.oc1..aaaauser/`):
				answer.WriteHeader(http.StatusUnauthorized)
			case !found:
				answer.WriteHeader(http.StatusNotFound)
			default:
				_, _ = fmt.Fprintf(answer, `{"id":%q,"compartmentId":%q}`, id, parent)
			}
		}))
		DeferCleanup(oci.Close)
		compartments.Store(compartmentID, "ocid1.tenancy.oc1..aaaatenancy")
		var err error
		w := newWorld(ctx, "clusters", capociCRDs())
		// What no override leads to is an address where nothing listens.
		w.asks, err = identity.NewVerifier(identity.VerifierOptions{Endpoint: "https://127.0.0.1:1"})
		Expect(err).NotTo(HaveOccurred())
		w.hosts = []string{strings.TrimPrefix(oci.URL, "https://")}
		w.start(ctx, templateScope, nil)

		w.create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: secretName}, Data: w.secretData(w.key)})
		w.create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "ca"},
			Data:       map[string][]byte{"cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: oci.Certificate().Raw})},
		})
		for _, object := range w.template() {
			if object.GetKind() == "OCIClusterIdentity" {
				spec, _ := object.Object["spec"].(map[string]any)
				spec["principalSecret"] = spec["clientSecret"]
				delete(spec, "clientSecret")
				w.create(ctx, object)
			}
		}
		cluster := &infrav1.OCICluster{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "workload"}, Spec: infrav1.ClusterSpec{
			IdentityRef: &corev1.ObjectReference{
				APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "OCIClusterIdentity", Namespace: tenant, Name: identityName,
			},
			CompartmentID: "ocid1.compartment.oc1..aaaaother",
			ClientOverrides: &infrav1.ClientOverrides{
				IdentityClientURL: oci.URL, CertOverride: &corev1.SecretReference{Namespace: vault, Name: "ca"},
			},
		}}
		w.create(ctx, cluster)
		told := func(ctx context.Context) func() string {
			return func() string {
				capi := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "workload"}}
				capi.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
					APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "OCICluster", Name: "workload",
				}
				note, err := w.resolver.Permits(ctx, capi)
				if problem, ok := errors.AsType[*outcome.Problem](err); ok {
					return problem.Kind.String() + " " + problem.Reason
				}
				if err != nil {
					return err.Error()
				}
				return note
			}
		}
		verified := w.condition(ctx, identityName, infrav1.IdentityVerifiedCondition)
		patch := func(text string) {
			GinkgoHelper()
			Expect(w.admin.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
		}
		Eventually(verified).Should(HavePrefix("False CompartmentNotVisible: OCICluster test/workload: "))
		Expect(told(ctx)()).To(Equal("Stall CompartmentNotVisible"))

		By("correcting the compartment")
		patch(`{"spec":{"compartmentId":"` + compartmentID + `"}}`)
		Eventually(verified).Should(Equal("True Verified"))
		Eventually(told(ctx)).Should(BeEmpty())

		By("naming a host that is not allowed")
		patch(`{"spec":{"clientOverrides":{"identityClientUrl":"https://override.invalid"}}}`)
		Eventually(verified).Should(HavePrefix("Unknown ClientOverrideIgnored"))
		Expect(told(ctx)()).To(ContainSubstring("ClientOverrideIgnored"), "it is a note, and no refusal")

		By("naming the first host again, while OCI is down")
		down.Store(true)
		patch(`{"spec":{"clientOverrides":{"identityClientUrl":"` + oci.URL + `"}}}`)
		Eventually(verified).Should(HavePrefix("Unknown OCIUnreachable"))
		Expect(told(ctx)()).To(ContainSubstring("OCIUnreachable"))
		Expect(w.printed.String()).NotTo(ContainSubstring("BEGIN RSA"))
	})
})
