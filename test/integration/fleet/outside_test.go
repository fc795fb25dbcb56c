package fleet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/process"
	"github.com/archelon-io/archelon/test/stage"
)

const library = "github.com/archelon-io/archelon/providers/capi"

// outside is a Go module of somebody else, in a directory outside the repository.
type outside struct {
	dir, version string
	env          []string
}

// goIs runs the go command in the module, and returns what it prints.
func (o *outside) goIs(ctx context.Context, args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env = o.dir, append(os.Environ(), o.env...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), stderr.String())
	return string(out)
}

// publish puts the library, as it is in the working tree, into a module proxy of files, and returns its version. The
// version is another one for each content, because Go's cache of modules keeps what it has seen.
func publish(proxy string) string {
	GinkgoHelper()
	source := filepath.Join(stage.Root(), "providers", "capi")
	var content bytes.Buffer
	pack := func(version string) {
		content.Reset()
		Expect(zip.CreateFromDir(&content, module.Version{Path: library, Version: version}, source)).To(Succeed())
	}
	pack("v0.0.0")
	sum := sha256.Sum256(content.Bytes())
	version := "v0.0.0-test.h" + hex.EncodeToString(sum[:6])
	pack(version)
	versions := filepath.Join(proxy, filepath.FromSlash(library), "@v")
	Expect(os.MkdirAll(versions, 0o755)).To(Succeed())
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	Expect(err).NotTo(HaveOccurred())
	for ext, raw := range map[string][]byte{
		"zip": content.Bytes(), "mod": mod,
		"info": fmt.Appendf(nil, `{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339)),
	} {
		Expect(os.WriteFile(filepath.Join(versions, version+"."+ext), raw, 0o600)).To(Succeed())
	}
	return version
}

// newOutside makes a module that requires the library, and nothing but that. What else it needs comes from Go's cache
// of modules, or from where the repository has its modules from.
func newOutside(ctx context.Context) *outside {
	GinkgoHelper()
	o := &outside{dir: GinkgoT().TempDir()}
	proxy := GinkgoT().TempDir()
	o.version = publish(proxy)
	of := func(name string) string { return strings.TrimSpace(o.goIs(ctx, "env", name)) }
	modules := of("GOMODCACHE")
	o.env = []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(modules, "cache", "download") + "," + of("GOPROXY"),
		"GONOSUMDB=" + library, "GOFLAGS=-mod=mod -modcacherw", "GOWORK=off",
	}
	DeferCleanup(func() {
		Expect(os.RemoveAll(filepath.Join(modules, filepath.FromSlash(library)+"@"+o.version))).To(Succeed())
		kept, err := filepath.Glob(filepath.Join(modules, "cache", "download", filepath.FromSlash(library), "@v", o.version+".*"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range kept {
			Expect(os.Remove(file)).To(Succeed())
		}
	})
	goVersion := strings.TrimPrefix(of("GOVERSION"), "go")
	goVersion, _, _ = strings.Cut(goVersion, " ")
	o.write("go.mod", fmt.Sprintf("module example.com/fleet\n\ngo %s\n\nrequire %s %s\n", goVersion, library, o.version))
	return o
}

func (o *outside) write(name, content string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(o.dir, name), []byte(content), 0o600)).To(Succeed())
}

// take copies a file of the library.
func (o *outside) take(from ...string) {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(append([]string{stage.Root(), "providers", "capi"}, from...)...))
	Expect(err).NotTo(HaveOccurred())
	o.write(from[len(from)-1], string(raw))
}

// allow gives a user of the management cluster the permissions of a file, and returns the path of the user's
// kubeconfig.
func allow(ctx context.Context, name string, file ...string) string {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(append([]string{stage.Root()}, file...)...))
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict(raw, role)).To(Succeed())
	role.Name = name
	Expect(managementAdmin.Create(ctx, role)).To(Succeed())
	Expect(managementAdmin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	})).To(Succeed())
	user, err := management.User(name)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := management.KubeconfigFor(user)
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())
	return path
}

var _ = Describe("The library in a repository of others", func() {
	It("runs the example of the documentation, and brings nothing of Rancher along", func(ctx SpecContext) {
		o := newOutside(ctx)
		o.take("examples", "cluster-api", "main.go")
		o.take("go.sum")
		o.goIs(ctx, "build", "-o", "example", ".")
		Expect(o.goIs(ctx, "list", "-m", "all")).To(And(ContainSubstring(library+" "+o.version), Not(ContainSubstring("rancher"))))
		required, err := os.ReadFile(filepath.Join(o.dir, "go.mod"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(required)).NotTo(ContainSubstring("replace"))

		w := newWorld(ctx)
		Expect(workloadAdmin.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "elephant"}})).To(Succeed())
		w.kubeconfig(ctx, "zoo", workload, workload.Config)
		w.cluster(ctx, "zoo", clusterv1.ClusterPhaseProvisioned)
		output := gbytes.NewBuffer()
		example := exec.CommandContext(ctx, filepath.Join(o.dir, "example"))
		example.Env = append(os.Environ(), "KUBECONFIG="+allow(ctx, "library-"+w.namespace, "providers", "capi", "examples", "cluster-api", "rbac.yaml"))
		example.Stdout, example.Stderr = output, output
		running, err := process.Start(example)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(running.KillGroup)
		Eventually(output).Should(gbytes.Say(`ConfigMap found.*"cluster": "` + w.namespace + `/zoo".*"name":"elephant"`))
		Expect(running.Stop(time.Minute)).To(Succeed())
		Expect(running.ExitCode()).To(BeZero(), string(output.Contents()))
	}, SpecTimeout(15*time.Minute))
})
