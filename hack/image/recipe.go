package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// scratch stands for no base at all.
	scratch = "scratch"
	// manager is the name of the manager's binary.
	manager = "archelon"
	// nonroot is the user that distroless images call so. A number, so that Kubernetes can see that it is not root.
	nonroot = "65532:65532"
)

// The names of labels and annotations: https://github.com/opencontainers/image-spec/blob/main/annotations.md
const (
	labelPrefix     = "org.opencontainers.image."
	labelBaseName   = labelPrefix + "base.name"
	labelBaseDigest = labelPrefix + "base.digest"
	labelRefName    = labelPrefix + "ref.name"
)

// recipe is what an image is made from.
type recipe struct {
	source    string // directory of the module
	pkg       string // package to build, seen from there
	program   string // name of the binary, in the root of the image
	user      string // that it runs as
	version   string
	revision  string
	ldflags   string
	base      string
	created   v1.Time
	platforms []v1.Platform
}

// result is an image for several platforms, with the program and the bill of materials of each, by their names.
type result struct {
	index    v1.ImageIndex
	programs map[string][]byte
	boms     map[string][]byte
}

func (r recipe) build(ctx context.Context) (*result, error) {
	tmp, err := os.MkdirTemp("", "archelon-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // of no use to anyone, and in the way of nobody
	built := &result{index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex), programs: map[string][]byte{}, boms: map[string][]byte{}}
	for _, platform := range r.platforms {
		binary := filepath.Join(tmp, platform.OS+"-"+platform.Architecture, r.program)
		if err := r.compile(ctx, platform, binary); err != nil {
			return nil, fmt.Errorf("compiling for %s: %w", platform, err)
		}
		image, err := r.assemble(ctx, platform, binary)
		if err != nil {
			return nil, fmt.Errorf("assembling the image for %s: %w", platform, err)
		}
		bom, err := r.bom(platform, image, binary)
		if err != nil {
			return nil, fmt.Errorf("listing what the binary for %s consists of: %w", platform, err)
		}
		file := fmt.Sprintf("%s-%s-%s", r.program, platform.OS, platform.Architecture)
		built.boms[file+".spdx.json"] = bom
		if built.programs[file], err = os.ReadFile(binary); err != nil {
			return nil, err
		}
		built.index = mutate.AppendManifests(built.index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	index, ok := mutate.Annotations(built.index, r.labels()).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("%T is no index", built.index)
	}
	built.index = index
	return built, nil
}

// compile is the same for everyone: no paths of this machine, and nothing of the checkout but what the linker is told.
func (r recipe) compile(ctx context.Context, platform v1.Platform, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w "+r.ldflags, "-o", binary, r.pkg)
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func (r recipe) assemble(ctx context.Context, platform v1.Platform, binary string) (v1.Image, error) {
	base, labels, err := r.pullBase(ctx, platform)
	if err != nil {
		return nil, err
	}
	layer, err := r.layer(binary)
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: r.created, CreatedBy: "go build", Comment: "/" + r.program},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, r.created
	config.Config.Entrypoint = []string{"/" + r.program}
	config.Config.Cmd = nil
	config.Config.WorkingDir = "/"
	config.Config.User = r.user
	config.Config.Labels = labels
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(image, labels).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("%T is no image", image)
	}
	return annotated, nil
}

// pullBase returns the base and the labels of what is built on it.
func (r recipe) pullBase(ctx context.Context, platform v1.Platform) (v1.Image, map[string]string, error) {
	if r.base == scratch {
		return mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), r.labels(), nil
	}
	ref, err := name.ParseReference(r.base)
	if err != nil {
		return nil, nil, err
	}
	base, err := remote.Image(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithPlatform(platform))
	if err != nil {
		return nil, nil, fmt.Errorf("pulling %s: %w", ref, err)
	}
	digest, err := base.Digest()
	if err != nil {
		return nil, nil, err
	}
	labels := r.labels()
	maps.Copy(labels, map[string]string{labelBaseName: ref.Name(), labelBaseDigest: digest.String()})
	return base, labels, nil
}

// layer holds the binary and nothing else.
func (r recipe) layer(binary string) (v1.Layer, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	if err := writer.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: r.program, Size: int64(len(content)), Mode: 0o555, ModTime: r.created.Time, Format: tar.FormatPAX,
	}); err != nil {
		return nil, err
	}
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

func (r recipe) labels() map[string]string {
	return map[string]string{
		labelPrefix + "title":       r.program,
		labelPrefix + "description": "Imports Cluster API clusters into Rancher",
		labelPrefix + "source":      "https://" + module,
		labelPrefix + "licenses":    license,
		labelPrefix + "version":     r.version,
		labelPrefix + "revision":    r.revision,
		labelPrefix + "created":     r.created.Format(time.RFC3339),
	}
}
