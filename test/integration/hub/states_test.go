package hub_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/forget"
	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/test/apart"
)

var _ = Describe("Registrations of management clusters", Label("nightly"), Ordered, func() {
	var (
		rancher    *hub
		east, west *management
		first      *clusterv1.Cluster
		ofEast     []managementv3.Cluster
		still      func(SpecContext)
	)

	BeforeAll(func(ctx SpecContext) {
		rancher = newHub(ctx)
		east, west = newManagement(ctx, rancher, "east"), newManagement(ctx, rancher, "west")
		rancher.register(ctx, "hole", newBlackHole().kubeconfig(east))
		rancher.run(ctx) // It gets ready beside the hole.
		still = func(ctx SpecContext) {
			GinkgoHelper()
			now := rancher.records(ctx, east, first)
			Expect(now).To(HaveLen(1))
			Expect(now[0].UID).To(Equal(ofEast[0].UID))
			Expect(now[0].DeletionTimestamp.IsZero()).To(BeTrue())
		}
	})

	It("start beside one that accepts connections and never answers", func(ctx SpecContext) {
		first = east.Create(ctx, "team-a", "first", west.ControlPlane)
		rancher.register(ctx, "east", east.kubeconfig)
		Eventually(east.Reason(ctx, first)).Should(Equal("True/Imported"))
		ofEast = rancher.records(ctx, east, first)
		Eventually(rancher.reasons(ctx, "hole")).Should(ConsistOf("Unreachable"))
		Expect(engaged("hole")()).To(BeZero())
		rancher.end(ctx, "hole")
		Eventually(engaged("hole")).Should(BeEquivalentTo(-1))
	})

	It("run no program that a kubeconfig names", func(ctx SpecContext) {
		trace := filepath.Join(GinkgoT().TempDir(), "trace")
		kubeconfig, err := clientcmd.Load(west.kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		for _, user := range kubeconfig.AuthInfos {
			*user = api.AuthInfo{Exec: &api.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{trace}, InteractiveMode: api.NeverExecInteractiveMode,
			}}
		}
		raw, err := clientcmd.Write(*kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		rancher.register(ctx, "west", raw)
		Eventually(rancher.reasons(ctx, "west")).Should(ConsistOf("KubeconfigRefused"))
		Consistently(func() error { _, err := os.Stat(trace); return err }).Should(MatchError(os.ErrNotExist))
		Expect(engaged("west")()).To(BeZero())
		Expect(rancher.eventsOf(ctx, "west")[0].Note).To(ContainSubstring("(exec)"))
		Expect(rancher.secret(ctx, "west").Annotations).NotTo(HaveKey(uidAnnotation))

		By("going on once it is corrected")
		rancher.register(ctx, "west", west.kubeconfig)
		Eventually(rancher.reasons(ctx, "west")).Should(ConsistOf("Engaged", "KubeconfigRefused"))
	})

	It("import from no other cluster behind the same Secret", func(ctx SpecContext) {
		rancher.end(ctx, "west")
		second := west.Create(ctx, "team-b", "second", east.ControlPlane)
		rancher.register(ctx, "east", west.kubeconfig)
		Eventually(rancher.reasons(ctx, "east")).Should(ContainElement("OtherCluster"))
		Eventually(engaged("east")).Should(BeZero())
		Consistently(west.Reason(ctx, second)).Should(Equal("none"))
		still(ctx)

		By("taking over other credentials of the first cluster")
		config, err := east.User("another", admins)
		Expect(err).NotTo(HaveOccurred())
		rancher.register(ctx, "east", east.kubeconfigFor(config))
		Eventually(engaged("east")).Should(BeEquivalentTo(1))
		still(ctx)
		Expect(west.Client.Delete(ctx, second)).To(Succeed())
	})

	It("are one for each management cluster, and none for Rancher's own", func(ctx SpecContext) {
		rancher.register(ctx, "twin", east.kubeconfig)
		Eventually(rancher.reasons(ctx, "twin")).Should(ConsistOf("SameCluster"))
		own, err := rancher.Management.KubeconfigFor(rancher.Management.Config)
		Expect(err).NotTo(HaveOccurred())
		rancher.register(ctx, "own", own)
		Eventually(rancher.reasons(ctx, "own")).Should(ConsistOf("SameCluster"))
		Expect(engaged("twin")()).To(BeZero())
		Expect(engaged("own")()).To(BeZero())
		rancher.end(ctx, "twin")
		rancher.end(ctx, "own")
	})

	It("keep the Rancher cluster of a CAPI Cluster that vanishes", func(ctx SpecContext) {
		gone := east.Create(ctx, "team-a", "gone", west.ControlPlane)
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, east, gone) }).Should(HaveLen(1))
		Eventually(east.K(ctx).Object(gone)).Should(HaveField("Finalizers", ContainElement(apart.Finalizer)))
		Eventually(func() error { // Between the two, the import may have taken it again.
			released := gone.DeepCopy()
			if err := east.Client.Patch(ctx, released, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
				return err
			}
			return east.Client.Delete(ctx, released, client.Preconditions{ResourceVersion: &released.ResourceVersion})
		}).Should(Succeed())
		Eventually(east.K(ctx).Get(gone)).Should(Satisfy(apierrors.IsNotFound))
		Consistently(func() []managementv3.Cluster { return rancher.records(ctx, east, gone) }).Should(HaveLen(1))
		Expect(rancher.records(ctx, east, gone)[0].DeletionTimestamp.IsZero()).To(BeTrue())
	})

	It("leave Rancher clusters as they are when they go", func(ctx SpecContext) {
		rancher.end(ctx, "east")
		Eventually(engaged("east")).Should(BeEquivalentTo(-1))
		Expect(east.Client.Delete(ctx, first)).To(Succeed())
		Consistently(func() []managementv3.Cluster { return rancher.records(ctx, east, first) }).Should(HaveLen(1))
		still(ctx)

		By("going on when they are back")
		rancher.register(ctx, "east", east.kubeconfig)
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, east, first) }).Should(BeEmpty())
	})

	It("are released one by one, by two commands", func(ctx SpecContext) {
		held := east.Create(ctx, "team-a", "held", west.ControlPlane)
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, east, held) }).Should(HaveExactElements(
			HaveField("Finalizers", ContainElement(apart.Finalizer))))
		rancher.end(ctx, "east")
		Eventually(engaged("east")).Should(BeEquivalentTo(-1))

		opts := uninstall.NewOptions()
		opts.Instance, opts.InstanceNamespace = "archelon", system
		Expect(uninstall.Run(ctx, east.Config, opts, GinkgoWriter)).To(Succeed())
		Expect(east.K(ctx).Object(held)()).To(HaveField("Finalizers", Not(ContainElement(apart.Finalizer))))
		forgotten := forget.Options{UID: types.UID(east.UID), Yes: true, Timeout: time.Minute}
		Expect(forget.Run(ctx, rancher.Management.Config, forgotten, GinkgoWriter)).To(Succeed())
		list := &managementv3.ClusterList{}
		Expect(rancher.Client.List(ctx, list)).To(Succeed())
		for i := range list.Items {
			Expect(list.Items[i].Labels).NotTo(HaveKeyWithValue(apart.OriginLabel, east.UID))
		}
	})
})
