package main

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
)

const (
	version  = "v1.2.3"
	revision = "0123456789abcdef"
)

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func testRecipe() recipe {
	variables := module + "/internal/version."
	return recipe{
		source:    filepath.Join("..", ".."),
		pkg:       ".",
		program:   manager,
		user:      nonroot,
		version:   version,
		revision:  revision,
		ldflags:   "-X " + variables + "version=" + version + " -X " + variables + "revision=" + revision,
		base:      scratch,
		created:   v1.Time{Time: time.Unix(1_000_000_000, 0).UTC()},
		platforms: []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}},
	}
}

// built is what the tests look at; building takes a while.
var built = sync.OnceValues(func() (*result, error) { return testRecipe().build(context.Background()) })

// written is a layout with the image, and its digest.
func written(t *testing.T) (dir string, digest v1.Hash) {
	t.Helper()
	image, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "image")
	for range 2 { // the second replaces the first
		if err := image.write(dir, version); err != nil {
			t.Fatal(err)
		}
	}
	if digest, err = image.index.Digest(); err != nil {
		t.Fatal(err)
	}
	return dir, digest
}

// open reads the index that is the only entry of a layout.
func open(t *testing.T, dir string, digest v1.Hash) v1.ImageIndex {
	t.Helper()
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest != digest || manifest.Manifests[0].Annotations[labelRefName] != version {
		t.Fatalf("the layout has %v, want %s as %s only", manifest.Manifests, digest, version)
	}
	index, err := root.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index is not valid: %v", err)
	}
	return index
}

func TestImage(t *testing.T) {
	dir, digest := written(t)
	index := open(t, dir, digest)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{
		"org.opencontainers.image.title":       "archelon",
		"org.opencontainers.image.description": "Imports Cluster API clusters into Rancher",
		"org.opencontainers.image.source":      "https://github.com/archelon-io/archelon",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.revision":    revision,
		"org.opencontainers.image.created":     "2001-09-09T01:46:40Z",
	}
	if diff := cmp.Diff(labels, manifest.Annotations); diff != "" {
		t.Errorf("annotations of the index (-want +got):\n%s", diff)
	}
	var platforms []string
	for _, descriptor := range manifest.Manifests {
		platforms = append(platforms, descriptor.Platform.String())
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(descriptor.Platform.Architecture, func(t *testing.T) { checkImage(t, image, descriptor, labels) })
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

func checkImage(t *testing.T, image v1.Image, descriptor v1.Descriptor, labels map[string]string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != descriptor.Platform.OS || config.Architecture != descriptor.Platform.Architecture {
		t.Errorf("the config says %s/%s, the index %s", config.OS, config.Architecture, descriptor.Platform)
	}
	want := v1.Config{Entrypoint: []string{"/archelon"}, User: "65532:65532", WorkingDir: "/", Labels: labels}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	files := contents(t, image)
	if names := slices.Collect(maps.Keys(files)); len(names) != 1 || names[0] != "archelon" {
		t.Fatalf("the image has %v, want the program only", names)
	}
	program, err := elf.NewFile(bytes.NewReader(files["archelon"]))
	if err != nil {
		t.Fatal(err)
	}
	if program.Machine != machines[descriptor.Platform.Architecture] {
		t.Errorf("the program is for %s", program.Machine)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Error("the program needs a dynamic linker, which the image does not have")
		}
	}
	if descriptor.Platform.OS == runtime.GOOS && descriptor.Platform.Architecture == runtime.GOARCH {
		checkVersion(t, files["archelon"])
	}
}

// checkVersion runs a program.
func checkVersion(t *testing.T, program []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archelon")
	if err := os.WriteFile(path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "archelon " + version + " (" + revision + ", " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")\n"
	if string(out) != want {
		t.Errorf("--version prints %q, want %q", out, want)
	}
}

// contents are the files in all layers of an image.
func contents(t *testing.T, image v1.Image) map[string][]byte {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, layer := range layers {
		stream, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewReader(stream)
		for {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if files[header.Name], err = io.ReadAll(archive); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestBillsOfMaterials(t *testing.T) {
	dir, _ := written(t)
	for _, arch := range []string{"amd64", "arm64"} {
		raw, err := os.ReadFile(filepath.Join(dir, "sbom", "archelon-linux-"+arch+".spdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		document, err := json.Read(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		if err := spdxlib.ValidateDocument(document); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
		versions := map[string]string{}
		for _, part := range document.Packages {
			versions[part.PackageName] = part.PackageVersion
		}
		if versions[module] != version {
			t.Errorf("%s: %s has version %q, want %s", arch, module, versions[module], version)
		}
		if library := module + "/providers/capi"; versions[library] != version {
			t.Errorf("%s: %s has version %q, want that of the program, whose repository it is in", arch, library, versions[library])
		}
		if versions["stdlib"] != runtime.Version() {
			t.Errorf("%s: the standard library has version %q, want %s", arch, versions["stdlib"], runtime.Version())
		}
		for _, dependency := range []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go"} {
			if !strings.HasPrefix(versions[dependency], "v0.") {
				t.Errorf("%s: %s has version %q, want one that starts with v0: what is linked, with replacements", arch, dependency, versions[dependency])
			}
		}
	}
}

func TestReproducible(t *testing.T) {
	_, first := written(t)
	again, err := testRecipe().build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := again.index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("two builds have digests %s and %s", first, second)
	}
}

func TestPush(t *testing.T) {
	dir, digest := written(t)
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	repository := strings.TrimPrefix(server.URL, "http://") + "/archelon-io/archelon"
	got, err := push(t.Context(), dir, repository+":"+version)
	if err != nil {
		t.Fatal(err)
	}
	if want := repository + "@" + digest.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	tag, err := name.NewTag(repository + ":" + version)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("what the registry has is not valid: %v", err)
	}
	if pulled, err := index.Digest(); err != nil || pulled != digest {
		t.Errorf("the registry has %s (%v), want %s", pulled, err, digest)
	}
}

func TestExtract(t *testing.T) {
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	image := strings.TrimPrefix(server.URL, "http://") + "/somebody/programs:v1"
	tag, err := name.NewTag(image)
	if err != nil {
		t.Fatal(err)
	}
	content, err := crane.Image(map[string][]byte{"usr/bin/agent": []byte("#!/bin/sh\n"), "usr/bin/other": nil, "etc/agent": []byte("other")})
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, content, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	platform := v1.Platform{OS: "linux", Architecture: "amd64"}
	dir := filepath.Join(t.TempDir(), "bin")
	if err := extract(t.Context(), image, platform, dir, []string{"/usr/bin/agent", "/usr/bin/tini?"}); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "agent")
	if written, err := os.ReadFile(program); err != nil || string(written) != "#!/bin/sh\n" {
		t.Errorf("got %q (%v)", written, err)
	}
	if info, err := os.Stat(program); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("it is not executable: %v (%v)", info, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("got %v (%v), want one program", entries, err)
	}
	err = extract(t.Context(), image, platform, dir, []string{"/usr/bin/agent", "/usr/bin/webhook"})
	if err == nil || !strings.Contains(err.Error(), "has no /usr/bin/webhook") {
		t.Errorf("got %v for a program that is missing", err)
	}
}

func TestBase(t *testing.T) {
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	base := strings.TrimPrefix(server.URL, "http://") + "/base:latest"
	tag, err := name.NewTag(base)
	if err != nil {
		t.Fatal(err)
	}
	below, err := random.Image(64, 2)
	if err != nil {
		t.Fatal(err)
	}
	recipe := testRecipe()
	recipe.base = base
	platform := recipe.platforms[1]
	if err := remote.WriteIndex(tag, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: below, Descriptor: v1.Descriptor{Platform: &platform},
	}), remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), manager)
	if err := os.WriteFile(binary, []byte("binary"), 0o700); err != nil {
		t.Fatal(err)
	}
	image, err := recipe.assemble(t.Context(), platform, binary)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) != 3 {
		t.Errorf("%d layers, want the two of the base and one", len(layers))
	}
	digest, err := below.Digest()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Annotations[labelBaseDigest]; got != digest.String() {
		t.Errorf("the digest of the base is given as %q, want %s", got, digest)
	}
	if _, err := recipe.assemble(t.Context(), recipe.platforms[0], binary); err == nil {
		t.Error("a base without the platform is accepted")
	}
}

func TestOtherDirectoriesAreLeftAlone(t *testing.T) {
	image, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := image.write(dir, version); err == nil {
		t.Error("a directory with other things is accepted")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestWhatIsLinked(t *testing.T) {
	for of, tc := range map[string]struct {
		dependency    debug.Module
		path, version string
	}{
		"Plain":     {debug.Module{Path: "a", Version: "v1"}, "a", "v1"},
		"Replaced":  {debug.Module{Path: "a", Version: "v1", Replace: &debug.Module{Path: "b", Version: "v2"}}, "b", "v2"},
		"Directory": {debug.Module{Path: "a", Version: "v0", Replace: &debug.Module{Path: "./a", Version: devel}}, "a", "v3"},
	} {
		if path, version := linked(&tc.dependency, "v3"); path != tc.path || version != tc.version {
			t.Errorf("%s: got %s %s, want %s %s", of, path, version, tc.path, tc.version)
		}
	}
}
