package import_test

import (
	"bytes"
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: an administrator runs archelon uninstall by hand, with a slip in the name of the instance, or after the
// namespace of the instance was deleted.
var _ = Describe("archelon uninstall", func() {
	var (
		f       *fixture
		cluster *clusterv1.Cluster
	)
	run := func(ctx context.Context, instance string, yes bool) (string, error) {
		opts, out := uninstall.NewOptions(), &bytes.Buffer{}
		opts.Instance, opts.InstanceNamespace, opts.Yes, opts.Timeout = instance, stage.SystemNamespace, yes, patience
		err := uninstall.Run(ctx, f.Management.Config, opts, out)
		AddReportEntry("output", out.String())
		return out.String(), err
	}
	name := func(ctx context.Context, object client.Object, instance string) {
		GinkgoHelper()
		f.Patch(ctx, object, func(o client.Object) {
			importing.SetAnnotation(o, archelonv1.InstanceAnnotation, stage.SystemNamespace+"/"+instance)
		})
	}
	BeforeEach(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "uninstall"})
		f.run(ctx, importing.Gate("v1"))
		cluster = f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.Manager.Stop()).To(Succeed())
		importing.Current(ctx, f.Client, cluster)
	})
	unchanged := func(ctx context.Context) {
		GinkgoHelper()
		before, record := cluster.ResourceVersion, f.V1Records(ctx, cluster)[0]
		Expect(importing.Current(ctx, f.Client, cluster).ResourceVersion).To(Equal(before))
		Expect(record.Finalizers).To(ContainElement(importing.Finalizer))
	}

	It("changes nothing for an instance that does not exist", func(ctx context.Context) {
		said, err := run(ctx, "archelom", true)
		Expect(err).To(MatchError(And(ContainSubstring("instance archelon-system/archelom: it does not exist"), ContainSubstring("kubectl get leases"))), said)
		unchanged(ctx)
	})

	It("lists what it would release, and changes nothing without --yes", func(ctx context.Context) {
		said, err := run(ctx, "archelon", false)
		Expect(err).To(MatchError(ContainSubstring("add --yes")))
		Expect(said).To(And(
			ContainSubstring("Would release Cluster.cluster.x-k8s.io "+client.ObjectKeyFromObject(cluster).String()+"\n"),
			ContainSubstring("Would release Cluster.provisioning.cattle.io "), ContainSubstring("Would release 2 objects\n"),
		))
		unchanged(ctx)
	})

	It("releases what names an instance whose namespace is gone, and nothing else", func(ctx context.Context) {
		f.run(ctx, importing.Gate("v1"))
		orphan := f.Cluster(ctx, cluster.Namespace, "orphan", importing.Selected)
		Eventually(func() int { return len(f.V1Records(ctx, orphan)) }).Should(Equal(1)) // It has no agent: prod's is there.
		Expect(f.Manager.Stop()).To(Succeed())
		name(ctx, importing.Current(ctx, f.Client, orphan), "gone")
		importing.Current(ctx, f.Client, cluster)
		said, err := run(ctx, "gone", true)
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(And(ContainSubstring("neither a Lease nor a Deployment"), ContainSubstring("Done: 1 CAPI clusters, 1 Rancher clusters")))
		Expect(importing.Current(ctx, f.Client, orphan).Finalizers).NotTo(ContainElement(importing.Finalizer))
		unchanged(ctx)
	})

	It("ends although another program puts the finalizer back, and names the object", func(ctx context.Context) {
		done := make(chan struct{})
		back, stop := context.WithCancel(ctx)
		defer func() { stop(); <-done }()
		go func() {
			defer close(done)
			for tick := time.NewTicker(50 * time.Millisecond); back.Err() == nil; <-tick.C {
				patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["`+importing.Finalizer+`"]}}`))
				_ = f.Client.Patch(back, cluster.DeepCopy(), patch)
			}
		}()
		said, err := run(ctx, "archelon", true)
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(MatchRegexp(`Done: 1 CAPI clusters, .*put.* the finalizers back: Cluster.cluster.x-k8s.io ` + client.ObjectKeyFromObject(cluster).String()))
	})
})
