package import_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
)

// isolated has the manager of every scenario work, and have rights, in the namespaces of the scenario only.
var isolated = flag.Bool("archelon.isolated", false, "install the chart for named namespaces instead of for all")

// tenantsPerFixture is more than any scenario uses. Each costs the manager a few watches.
const tenantsPerFixture = 80

// tenants are the namespaces of an isolated manager. They exist before it starts: one that comes later is taken up after a while, which is a
// scenario of its own.
type tenants struct {
	all  []string
	used int
	most int  // tenantsPerFixture if it is zero
	none bool // the scenario has namespaces of its own
}

// namespace returns a new namespace.
func (f *fixture) namespace(ctx context.Context, labels map[string]string) string {
	GinkgoHelper()
	if !*isolated {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-", Labels: labels}}
		Expect(f.Client.Create(ctx, namespace)).To(Succeed())
		return namespace.Name
	}
	f.prepareTenants(ctx)
	Expect(f.tenants.used).To(BeNumerically("<", len(f.tenants.all)), "all tenants are in use")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.tenants.all[f.tenants.used]}}
	f.tenants.used++
	if len(labels) > 0 {
		f.patch(ctx, current(ctx, f, namespace), func(o client.Object) { maps.Copy(o.GetLabels(), labels) })
	}
	return namespace.Name
}

// prepareTenants makes the namespaces of an isolated manager, once.
func (f *fixture) prepareTenants(ctx context.Context) {
	GinkgoHelper()
	for i := range cmp.Or(f.tenants.most, tenantsPerFixture) - len(f.tenants.all) {
		name := fmt.Sprintf("tenant-%02d", i)
		Expect(f.Client.Create(ctx, namespaceOf(name))).To(Succeed())
		f.tenants.all = append(f.tenants.all, name)
	}
}

// quickLoss has a manager look into the loss of an agent's connection soon.
const quickLoss = "--agent-disconnect-grace=1s"

// StartManager starts the manager as stage.Stage does, for all namespaces or for the tenants. It looks into the loss of an agent soon.
func (f *fixture) StartManager(ctx context.Context, binary string, out io.Writer, flags ...string) (*stage.Manager, error) {
	flags = append([]string{quickLoss}, flags...)
	scoped := slices.ContainsFunc(flags, func(flag string) bool {
		return strings.HasPrefix(flag, "--namespace=") || strings.HasPrefix(flag, "--excluded-namespace=")
	})
	if *isolated && !scoped && !f.tenants.none {
		f.prepareTenants(ctx)
		flags = append(flags, "--namespace="+strings.Join(f.tenants.all, ","))
	}
	return f.Stage.StartManager(ctx, binary, out, flags...)
}
