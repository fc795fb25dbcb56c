package import_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/proxy"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

const (
	registrationRequested = "archelon.io/registration-requested"
	fleetCondition        = "FleetEngaged"
	v3Clusters            = "/apis/management.cattle.io/v3/clusters"
	capiClusters          = "/apis/cluster.x-k8s.io/v1beta2/namespaces/"
)

// A manager freezes after it has decided on a write, and the world goes on without it. When it thaws, the write meets
// another world: nothing of that is lost, and no Cluster gets a second Rancher cluster.
var _ = Describe("Frozen writes", Ordered, ContinueOnFailure, func() {
	var (
		f         *fixture
		gateway   *proxy.Proxy
		namespace string
		unused    = []byte("no workload cluster is asked")
	)
	BeforeAll(func(ctx context.Context) {
		s := startStage(ctx, stage.Options{Name: "frozen", Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr }})
		f = &fixture{&importing.Fixture{Stage: s}}
		gateway = startProxy(s.Management.Config)
		s.Through = gateway.Through
		f.startManager(ctx, "--feature-gates=managementv3-cluster=true,fleet=true", "--sync-period=1h")
		Expect(f.Rancher.HoldTokens(ctx, true)).To(Succeed())
		namespace = f.Namespace(ctx, nil)
	})
	AfterEach(func(ctx context.Context) {
		gateway.Judge(func(*http.Request) proxy.Verdict { return proxy.Pass })
		clusters := &clusterv1.ClusterList{}
		Expect(f.Client.List(ctx, clusters)).To(Succeed())
		for i := range clusters.Items {
			f.vanish(ctx, &clusters.Items[i])
		}
		Expect(f.Client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(namespace))).To(Succeed())
		records := &managementv3.ClusterList{}
		Expect(f.Client.List(ctx, records)).To(Succeed())
		for i := range records.Items {
			f.vanish(ctx, &records.Items[i])
		}
	})
	// imported returns a Cluster that waits for Rancher's registration, and its Rancher cluster.
	imported := func(ctx context.Context, name string) (*clusterv1.Cluster, *managementv3.Cluster) {
		GinkgoHelper()
		cluster := f.ClusterWith(ctx, namespace, name, unused, importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForRancher"))
		records := f.V3Records(ctx, cluster)
		Expect(records).To(HaveLen(1))
		return cluster, &records[0]
	}
	// stays waits until the Cluster is imported as it was before.
	stays := func(ctx context.Context, cluster *clusterv1.Cluster, record *managementv3.Cluster) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			now := &clusterv1.Cluster{}
			g.Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(cluster), now)).To(Succeed())
			g.Expect(now.Annotations).To(HaveKeyWithValue(importing.RecordKey, "v3/"+record.Name))
			g.Expect(importing.ReasonOf(now)).To(Equal("False/WaitingForRancher"))
			records := f.V3Records(ctx, cluster)
			g.Expect(records).To(HaveLen(1))
			g.Expect(records[0].UID).To(Equal(record.UID), "it is the Rancher cluster that it had before")
			g.Expect(records[0].DeletionTimestamp).To(BeNil())
			g.Expect(records[0].Finalizers).To(ContainElement(importing.Finalizer))
		}).Should(Succeed())
	}

	It("leave a Cluster out that was kept out before it was claimed", func(ctx context.Context) {
		claim := freeze(gateway, func(r *http.Request, body string) bool {
			return r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, capiClusters) &&
				strings.Contains(body, importing.RecordKey)
		})
		cluster := f.ClusterWith(ctx, namespace, "claimed", unused, importing.Selected)
		claim.reached(ctx)
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
			importing.SetAnnotation(o, importing.ImportedKey, "true")
		})
		Expect(claim.thaw(ctx)).To(Equal(http.StatusConflict))
		Eventually(f.Reason(ctx, cluster)).Should(HavePrefix("False/"))
		Consistently(func() []managementv3.Cluster { return f.V3Records(ctx, cluster) }).Should(BeEmpty())
		Expect(importing.Current(ctx, f.Client, cluster).Annotations).To(HaveKeyWithValue(importing.ImportedKey, "true"))
	})

	for _, of := range []struct{ name, owner, condition string }{
		{"the import", "archelon", importing.Condition}, {"the fleet", "archelon-fleet", fleetCondition},
	} {
		status := func(name string) func(*http.Request, string) bool {
			return func(r *http.Request, _ string) bool {
				return r.Method == http.MethodPatch && r.URL.Path == capiClusters+namespace+"/clusters/"+name+"/status" &&
					r.URL.Query().Get("fieldManager") == of.owner
			}
		}
		It("keep the condition of "+of.name+" from the next Cluster of the name", func(ctx context.Context) {
			publication := freeze(gateway, status("again"))
			cluster := f.ClusterWith(ctx, namespace, "again", unused, importing.Selected)
			publication.reached(ctx)
			f.vanish(ctx, cluster)
			Expect(f.Client.Delete(ctx, builder.KubeconfigSecret(namespace, "again", nil))).To(Succeed())
			next := f.ClusterWith(ctx, namespace, "again", unused)
			Expect(publication.thaw(ctx)).To(Equal(http.StatusConflict))
			Consistently(func() any {
				return conditions.Get(importing.Current(ctx, f.Client, next), of.condition)
			}).Should(BeNil(), "it is the condition of the earlier Cluster")
		})
		It("keep a condition of "+of.name+" that is newer", func(ctx context.Context) {
			publication := freeze(gateway, status("newer"))
			cluster := f.ClusterWith(ctx, namespace, "newer", unused, importing.Selected)
			publication.reached(ctx)
			f.Status(ctx, cluster, func(c *clusterv1.Cluster) {
				builder.SetCondition(c, of.condition, metav1.ConditionFalse, "SaidByASuccessor")
			})
			Expect(publication.thaw(ctx)).To(Equal(http.StatusConflict))
		})
		It("have the condition of "+of.name+" said although others write the status", func(ctx context.Context) {
			publication := freeze(gateway, status("busy"))
			cluster := f.ClusterWith(ctx, namespace, "busy", unused, importing.Selected)
			publication.reached(ctx)
			f.Status(ctx, cluster, func(c *clusterv1.Cluster) {
				builder.SetCondition(c, "WorkersAvailable", metav1.ConditionTrue, "SaidByCAPI")
			})
			Expect(publication.thaw(ctx)).To(Equal(http.StatusConflict))
			Eventually(func() any {
				return conditions.Get(importing.Current(ctx, f.Client, cluster), of.condition)
			}).ShouldNot(BeNil())
			Expect(conditions.GetReason(cluster, "WorkersAvailable")).To(Equal("SaidByCAPI"))
		})
	}

	It("create one Rancher cluster, although the next Cluster of the name has begun", func(ctx context.Context) {
		creation := freeze(gateway, func(r *http.Request, _ string) bool {
			return r.Method == http.MethodPost && r.URL.Path == v3Clusters
		})
		cluster := f.ClusterWith(ctx, namespace, "created", unused, importing.Selected)
		creation.reached(ctx)
		f.vanish(ctx, cluster)
		Expect(f.Client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(namespace))).To(Succeed())
		next := f.ClusterWith(ctx, namespace, "created", unused, importing.Selected)
		Expect(creation.thaw(ctx)).To(Equal(http.StatusCreated))
		Eventually(f.Reason(ctx, next)).Should(Equal("False/ForeignRancherCluster"))
		Consistently(func() []managementv3.Cluster { return f.V3Records(ctx, next) }).Should(ConsistOf(
			HaveField("Labels", HaveKeyWithValue(importing.UIDLabel, string(cluster.UID))),
		))
	})

	It("do not delete a Rancher cluster that was released if it is to be imported again", func(ctx context.Context) {
		cluster, record := imported(ctx, "released")
		release := freeze(gateway, func(r *http.Request, body string) bool {
			return r.Method == http.MethodPatch && r.URL.Path == v3Clusters+"/"+record.Name &&
				strings.Contains(body, "finalizers")
		})
		f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
		release.reached(ctx)
		f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "true")
		release.thaw(ctx)
		stays(ctx, cluster, record)
	})

	It("do not delete a Rancher cluster that a successor holds again", func(ctx context.Context) {
		cluster, record := imported(ctx, "deleted")
		deletion := freeze(gateway, func(r *http.Request, _ string) bool {
			return r.Method == http.MethodDelete && r.URL.Path == v3Clusters+"/"+record.Name
		})
		f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
		deletion.reached(ctx)
		f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "true")
		f.Patch(ctx, importing.Current(ctx, f.Client, record), func(o client.Object) {
			controllerutil.AddFinalizer(o, importing.Finalizer)
		})
		Expect(deletion.thaw(ctx)).To(Equal(http.StatusConflict))
		stays(ctx, cluster, record)
	})

	It("ask for the registration of no other Rancher cluster of the name", func(ctx context.Context) {
		url := f.Rancher.URL()
		Expect(f.Rancher.SetServerURL(ctx, "")).To(Succeed())
		DeferCleanup(f.Rancher.SetServerURL, url)
		Expect(f.Rancher.HoldTokens(ctx, false)).To(Succeed())
		DeferCleanup(f.Rancher.HoldTokens, true)
		cluster := f.ClusterWith(ctx, namespace, "registered", unused, importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/ServerURLMissing"))
		record := f.V3Records(ctx, cluster)[0]
		request := freeze(gateway, func(r *http.Request, body string) bool {
			return r.Method == http.MethodPatch && r.URL.Path == v3Clusters+"/"+record.Name &&
				strings.Contains(body, registrationRequested)
		})
		Expect(f.Rancher.SetServerURL(ctx, url)).To(Succeed())
		request.reached(ctx)
		f.vanish(ctx, &record)
		next := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: record.Name}}
		next.Spec.DisplayName = "of somebody else"
		Expect(f.Client.Create(ctx, next)).To(Succeed())
		request.thaw(ctx)
		Consistently(func() map[string]string { return importing.Current(ctx, f.Client, next).Annotations }).
			ShouldNot(HaveKey(registrationRequested))
	})
})

// vanish deletes an object, whoever holds it.
func (f *fixture) vanish(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(f.Client.Delete(ctx, object))).To(Succeed())
	key, uid := client.ObjectKeyFromObject(object), object.GetUID()
	Eventually(func(g Gomega) {
		now, _ := object.DeepCopyObject().(client.Object)
		err := f.Client.Get(ctx, key, now)
		if apierrors.IsNotFound(err) || err == nil && now.GetUID() != uid {
			return
		}
		g.Expect(err).NotTo(HaveOccurred())
		before, _ := now.DeepCopyObject().(client.Object)
		now.SetFinalizers(nil)
		g.Expect(client.IgnoreNotFound(f.Client.Patch(ctx, now, client.MergeFrom(before)))).To(Succeed())
		g.Expect(f.Client.Get(ctx, key, now)).To(Satisfy(apierrors.IsNotFound))
	}).Should(Succeed())
}

// frozen is a request that a manager has sent, and that has yet to reach the API server.
type frozen struct {
	caught, thawed, answered chan struct{}
	status                   int
}

// frozenHeader marks the request for whoever sees its answer.
const frozenHeader = "X-Frozen"

// freeze holds the first request that matches, until it is thawed or the manager gives up. All others pass.
func freeze(p *proxy.Proxy, matches func(r *http.Request, body string) bool) *frozen {
	held := &frozen{caught: make(chan struct{}), thawed: make(chan struct{}), answered: make(chan struct{})}
	first := make(chan struct{}, 1)
	first <- struct{}{}
	p.Observe(func(response *http.Response) {
		if response.Request.Header.Get(frozenHeader) != "" {
			held.status = response.StatusCode
			close(held.answered)
		}
	})
	p.Judge(func(r *http.Request) proxy.Verdict {
		if r.Method == http.MethodGet {
			return proxy.Pass
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return proxy.Refuse
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !matches(r, string(body)) {
			return proxy.Pass
		}
		select {
		case <-first:
		default:
			return proxy.Pass
		}
		r.Header.Set(frozenHeader, "true")
		close(held.caught)
		select {
		case <-held.thawed:
		case <-r.Context().Done():
		}
		return proxy.Pass
	})
	return held
}

// reached waits until the manager has sent the request.
func (f *frozen) reached(ctx context.Context) {
	GinkgoHelper()
	Eventually(f.caught).WithContext(ctx).Should(BeClosed())
}

// thaw has the request go on, and returns what the API server answers.
func (f *frozen) thaw(ctx context.Context) int {
	GinkgoHelper()
	close(f.thawed)
	Eventually(f.answered).WithContext(ctx).WithTimeout(time.Minute).Should(BeClosed())
	return f.status
}
