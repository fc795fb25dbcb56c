package identity_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/archelon-io/archelon/test/outside"
)

var _ = Describe("The library of identities in a repository of others", func() {
	It("leads from an OCICluster to its principal, and brings nothing of Rancher along", func(ctx SpecContext) {
		module := outside.New(ctx, "identity")
		module.Take("examples", "cluster", "main.go")
		module.Take("go.sum")
		module.Go(ctx, "build", "-o", "example", ".")
		module.ExpectPlain(ctx)

		w := newWorld(ctx, "library", append(
			capociCRDs("ociclusters"),
			readCRD("../../../api/infrastructure/crd/infrastructure.cluster.x-k8s.io_ociclusteridentities.yaml"),
		))
		kubeconfig, err := w.plane.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())
		w.createTemplate(ctx)
		ask := func(ctx context.Context, secrets string) string {
			example := exec.CommandContext(ctx, filepath.Join(module.Dir, "example"), tenant+"/workload", secrets, tenant)
			example.Env = append(os.Environ(), "KUBECONFIG="+path)
			out, _ := example.CombinedOutput()
			return string(out)
		}
		Expect(ask(ctx, vault)).To(Equal("test/workload is reconciled as ocid1.user.oc1..aaaauser\n"))
		Expect(ask(ctx, other)).To(HavePrefix("refused: SecretNamespaceForbidden: OCIClusterIdentity test/" + identityName))
	}, SpecTimeout(15*time.Minute))
})
