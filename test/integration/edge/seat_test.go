package edge_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/env"
)

var _ = Describe("Two Archelons for one management cluster", Ordered, func() {
	var (
		rancher     *rancherCluster
		site, clone *management
		cluster     *clusterv1.Cluster
		twin        *clusterv1.Cluster
		workload    *env.ControlPlane
		record      managementv3.Cluster
		stop        func() error
		old         coordinationv1.LeaseSpec
		copied      *rest.Config
	)
	// untouched fails if the clone writes anything within a time in which it could take the seat.
	untouched := func(ctx context.Context) {
		GinkgoHelper()
		before := len(written(requests(clone.ControlPlane, managerOfCAPI)))
		Consistently(func() int {
			return len(written(sentBy(requests(rancher.Management, account(site)), copied))) + len(written(requests(clone.ControlPlane, managerOfCAPI))) - before
		}).WithTimeout(apart.Soon().Expire + apart.Soon().Quiet).Should(BeZero())
		Expect(clone.Reason(ctx, twin)()).To(Equal("none"))
		Expect(rancher.records(ctx, site, cluster)).To(HaveExactElements(HaveField("UID", record.UID)))
	}

	// imports fails if the original does not create a Rancher cluster for a new CAPI Cluster.
	imports := func(ctx context.Context, name string) {
		GinkgoHelper()
		added := site.Create(ctx, "team-a", name, workload)
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, site, added) }).Should(HaveLen(1))
	}

	BeforeAll(func(ctx SpecContext) {
		rancher = newRancherCluster(ctx)
		workload = rancher.workload(ctx)
		site = newManagement(ctx, rancher, "original")
		site.connect(ctx, rancher.admit(ctx, site.UID))
		stop = site.run(ctx)
		cluster = site.Create(ctx, "team-a", "one", workload)
		Eventually(site.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		records := rancher.records(ctx, site, cluster)
		Expect(records).To(HaveLen(1))
		record = records[0]
		old = site.memory(ctx).Spec

		clone = newManagement(ctx, rancher, "clone")
		copied = rancher.account(ctx, site.UID, "copied")
		clone.connect(ctx, copied)
		twin = clone.Create(ctx, "team-a", "one", workload)
	})

	It("does nothing in another management cluster with a copied kubeconfig", func(ctx SpecContext) {
		probes, end := clone.begin(ctx)
		Eventually(func() string { return probe(ctx, probes) }).Should(ContainSubstring("role=rancher-side and the UID of this management cluster, " + clone.UID))
		untouched(ctx)
		Expect(end()).To(Succeed())
	})

	It("does nothing where the management cluster seems to be the same", func(ctx SpecContext) {
		clone.lookalike = rewriting(clone.UID, site.UID)
		probes, end := clone.begin(ctx)
		Eventually(func() string { return probe(ctx, probes) }).Should(ContainSubstring("Another Archelon, "))
		untouched(ctx)
		Expect(end()).To(Succeed())
	})

	It("does nothing in a clone that remembers all that the original does", func(ctx SpecContext) {
		clone.remember(ctx, old)
		probes, end := clone.begin(ctx)
		Eventually(func() string { return probe(ctx, probes) }).Should(ContainSubstring("Stop one of them"))
		untouched(ctx)
		Expect(ptr.Deref(clone.memory(ctx).Spec.HolderIdentity, "none")).To(BeEmpty())

		By("refusing to be uninstalled")
		config, err := clone.ServiceAccountConfig(ctx, system, "archelon.uninstall")
		Expect(err).NotTo(HaveOccurred())
		config.Wrap(clone.lookalike)
		Expect(uninstall.Run(ctx, config, uninstallation(), GinkgoWriter)).To(MatchError(seat.ErrTaken))

		By("leaving the seat to the original, which starts again")
		Expect(stop()).To(Succeed())
		stop = site.run(ctx)
		untouched(ctx)
		imports(ctx, "two")
		Expect(end()).To(Succeed())
	})

	It("continues at once after a restart", func(ctx SpecContext) {
		Expect(stop()).To(Succeed())
		stop = site.run(ctx, func(o *options.Options) {
			o.Seat.Quiet, o.Seat.Expire = time.Hour, time.Hour // Only a seat that was given back is taken sooner.
		})
		imports(ctx, "three")
	})

	It("keeps its Rancher clusters when it is restored from an older backup, and the original is dead", func(ctx SpecContext) {
		rancher.revoke(ctx, "first") // It cannot give the seat back.
		Expect(stop()).To(Succeed())
		seatOf := func() coordinationv1.LeaseSpec {
			lease := &coordinationv1.Lease{}
			Expect(rancher.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: seat.LeaseName(types.UID(site.UID))}, lease)).To(Succeed())
			return lease.Spec
		}
		dead := seatOf()
		site.remember(ctx, old)
		site.connect(ctx, rancher.account(ctx, site.UID, "new"))
		before := len(rancher.all(ctx, site))
		stop = site.run(ctx)
		Expect(seatOf().HolderIdentity).NotTo(Equal(dead.HolderIdentity))
		events := &corev1.EventList{}
		Eventually(func(g Gomega) {
			g.Expect(site.Client.List(ctx, events, client.InNamespace(system))).To(Succeed())
			g.Expect(events.Items).To(ContainElement(HaveField("Reason", "RancherSeatTaken")))
		}).Should(Succeed())

		imports(ctx, "four")
		Eventually(site.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(rancher.records(ctx, site, cluster)).To(HaveExactElements(HaveField("UID", record.UID)))
		Expect(rancher.all(ctx, site)).To(HaveLen(before + 1))
	})
})

// memory is what an installation remembers of its names on the seat.
func (m *management) memory(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(m.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: seat.MemoryName("archelon")}, lease)).To(Succeed())
	return lease
}

// remember replaces that.
func (m *management) remember(ctx context.Context, spec coordinationv1.LeaseSpec) {
	GinkgoHelper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: seat.MemoryName("archelon")}}
	Expect(client.IgnoreNotFound(m.Client.Delete(ctx, lease))).To(Succeed())
	lease.Spec = spec
	Expect(m.Client.Create(ctx, lease)).To(Succeed())
}

// all returns the v3 Clusters of a management cluster.
func (r *rancherCluster) all(ctx context.Context, from *management) []managementv3.Cluster {
	GinkgoHelper()
	list := &managementv3.ClusterList{}
	Expect(r.Client.List(ctx, list, client.MatchingLabels{apart.OriginLabel: from.UID})).To(Succeed())
	return list.Items
}

// probe returns what readiness says of the seat.
func probe(ctx context.Context, probes string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, probes+"/readyz/rancher-seat", http.NoBody)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// sentBy are the requests with the token of a config.
func sentBy(of []auditv1.Event, config *rest.Config) []auditv1.Event {
	GinkgoHelper()
	parts := strings.Split(config.BearerToken, ".")
	Expect(parts).To(HaveLen(3))
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	Expect(err).NotTo(HaveOccurred())
	claims := struct {
		ID string `json:"jti"`
	}{}
	Expect(json.Unmarshal(raw, &claims)).To(Succeed())
	Expect(claims.ID).NotTo(BeEmpty())
	return slices.DeleteFunc(of, func(e auditv1.Event) bool {
		return !slices.Contains(e.User.Extra["authentication.kubernetes.io/credential-id"], "JTI="+claims.ID)
	})
}

// rewriting has what an API server says of Namespace kube-system say another UID.
func rewriting(uid, other string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return rewriter(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err != nil || !strings.HasPrefix(request.URL.Path, "/api/v1/namespaces") || !strings.Contains(request.URL.String(), "kube-system") {
				return response, err
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			response.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(uid), []byte(other))))
			return response, err
		})
	}
}

type rewriter func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r rewriter) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
