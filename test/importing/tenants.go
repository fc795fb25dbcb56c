package importing

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/stage"
)

var (
	isolated   = flag.Bool("archelon.isolated", false, "install the chart for named namespaces instead of for all")
	valuesFile = flag.String("archelon.values", "", "a `file` with further values of the chart")
)

// Isolated reports whether the manager of every scenario works, and has rights, in the namespaces of the scenario only.
func Isolated() bool { return *isolated }

// Values returns further values of the chart for the managers of all scenarios, but for scenarios about other values.
// It is nil unless a flag names a file with some.
func Values() map[string]any {
	GinkgoHelper()
	if *valuesFile == "" {
		return nil
	}
	content, err := os.ReadFile(*valuesFile)
	Expect(err).NotTo(HaveOccurred())
	values := map[string]any{}
	Expect(yaml.UnmarshalStrict(content, &values)).To(Succeed())
	return values
}

// tenantsPerFixture is more than any scenario uses. Each costs the manager a few watches.
const tenantsPerFixture = 80

// Namespace returns a new namespace. Those of an isolated manager exist before it starts: one that comes later is taken
// up after a while, which is a scenario of its own.
func (f *Fixture) Namespace(ctx context.Context, labels map[string]string) string {
	GinkgoHelper()
	if !*isolated {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-", Labels: labels}}
		Expect(f.Client.Create(ctx, namespace)).To(Succeed())
		return namespace.Name
	}
	f.prepareTenants(ctx)
	Expect(f.used).To(BeNumerically("<", len(f.tenants)), "all tenants are in use")
	namespace := NamespaceOf(f.tenants[f.used])
	f.used++
	if len(labels) > 0 {
		f.Patch(ctx, Current(ctx, f.Client, namespace), func(o client.Object) { maps.Copy(o.GetLabels(), labels) })
	}
	return namespace.Name
}

// prepareTenants makes the namespaces of an isolated manager, once.
func (f *Fixture) prepareTenants(ctx context.Context) {
	GinkgoHelper()
	for i := range cmp.Or(f.Tenants, tenantsPerFixture) - len(f.tenants) {
		name := fmt.Sprintf("tenant-%02d", i)
		Expect(f.Client.Create(ctx, NamespaceOf(name))).To(Succeed())
		f.tenants = append(f.tenants, name)
	}
}

// QuickLoss has a manager look into the loss of an agent's connection soon.
const QuickLoss = "--agent-disconnect-grace=1s"

// StartManager starts the manager as stage.Stage does, for all namespaces or for the tenants. It looks
// into the loss of an agent soon.
func (f *Fixture) StartManager(ctx context.Context, binary string, out io.Writer, flags ...string) (*stage.Manager, error) {
	flags = append([]string{QuickLoss}, flags...)
	scoped := slices.ContainsFunc(flags, func(flag string) bool {
		return strings.HasPrefix(flag, "--namespace=") || strings.HasPrefix(flag, "--excluded-namespace=")
	})
	if *isolated && !scoped && !f.OwnNamespaces {
		f.prepareTenants(ctx)
		flags = append(flags, "--namespace="+strings.Join(f.tenants, ","))
	}
	return f.Stage.StartManager(ctx, binary, out, flags...)
}
