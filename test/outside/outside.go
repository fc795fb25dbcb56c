// Package outside makes a Go module of somebody else, in a directory outside the repository, that requires a library of
// this repository: it gets the library as users do, from a module proxy.
package outside

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
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/archelon-io/archelon/test/stage"
)

// Module is a Go module that requires a library, and nothing but that.
type Module struct {
	// Dir is where it is, and Version the version of the library.
	Dir, Version string

	library, source string
	env             []string
}

// New makes a module that requires the library in a directory of the repository. What else it needs comes from Go's
// cache of modules, or from where the repository has its modules from.
func New(ctx context.Context, directory string) *Module {
	GinkgoHelper()
	m := &Module{
		Dir: GinkgoT().TempDir(), library: "github.com/archelon-io/archelon/" + directory,
		source: filepath.Join(stage.Root(), filepath.FromSlash(directory)),
	}
	proxy := GinkgoT().TempDir()
	m.publish(proxy)
	of := func(name string) string { return strings.TrimSpace(m.Go(ctx, "env", name)) }
	modules := of("GOMODCACHE")
	m.env = []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(modules, "cache", "download") + "," + of("GOPROXY"),
		"GONOSUMDB=" + m.library, "GOFLAGS=-mod=mod -modcacherw", "GOWORK=off",
	}
	DeferCleanup(func() {
		path := filepath.FromSlash(m.library)
		Expect(os.RemoveAll(filepath.Join(modules, path+"@"+m.Version))).To(Succeed())
		kept, err := filepath.Glob(filepath.Join(modules, "cache", "download", path, "@v", m.Version+".*"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range kept {
			Expect(os.Remove(file)).To(Succeed())
		}
	})
	version, _, _ := strings.Cut(strings.TrimPrefix(of("GOVERSION"), "go"), " ")
	m.Write("go.mod", fmt.Sprintf("module example.com/outside\n\ngo %s\n\nrequire %s %s\n", version, m.library, m.Version))
	return m
}

// publish puts the library, as it is in the working tree, into a module proxy of files. The version is another one for
// each content, because Go's cache of modules keeps what it has seen.
func (m *Module) publish(proxy string) {
	GinkgoHelper()
	var content bytes.Buffer
	pack := func(version string) {
		content.Reset()
		Expect(zip.CreateFromDir(&content, module.Version{Path: m.library, Version: version}, m.source)).To(Succeed())
	}
	pack("v0.0.0")
	sum := sha256.Sum256(content.Bytes())
	m.Version = "v0.0.0-test.h" + hex.EncodeToString(sum[:6])
	pack(m.Version)
	versions := filepath.Join(proxy, filepath.FromSlash(m.library), "@v")
	Expect(os.MkdirAll(versions, 0o755)).To(Succeed())
	mod, err := os.ReadFile(filepath.Join(m.source, "go.mod"))
	Expect(err).NotTo(HaveOccurred())
	for ext, raw := range map[string][]byte{
		"zip": content.Bytes(), "mod": mod,
		"info": fmt.Appendf(nil, `{"Version":%q,"Time":%q}`, m.Version, time.Now().UTC().Format(time.RFC3339)),
	} {
		Expect(os.WriteFile(filepath.Join(versions, m.Version+"."+ext), raw, 0o600)).To(Succeed())
	}
}

// Go runs the go command in the module, and returns what it prints.
func (m *Module) Go(ctx context.Context, args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env = m.Dir, append(os.Environ(), m.env...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), stderr.String())
	return string(out)
}

// Write writes a file of the module.
func (m *Module) Write(name, content string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(m.Dir, name), []byte(content), 0o600)).To(Succeed())
}

// Take copies a file of the library.
func (m *Module) Take(path ...string) {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(append([]string{m.source}, path...)...))
	Expect(err).NotTo(HaveOccurred())
	m.Write(path[len(path)-1], string(raw))
}

// ExpectPlain fails if the module needs a module of Rancher, or a replace.
func (m *Module) ExpectPlain(ctx context.Context) {
	GinkgoHelper()
	Expect(m.Go(ctx, "list", "-m", "all")).To(And(
		ContainSubstring(m.library+" "+m.Version), Not(ContainSubstring("rancher")), Not(ContainSubstring("=>")),
	))
	required, err := os.ReadFile(filepath.Join(m.Dir, "go.mod"))
	Expect(err).NotTo(HaveOccurred())
	Expect(string(required)).NotTo(ContainSubstring("replace"))
}
