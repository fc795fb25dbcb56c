package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Where the bills of materials and the programs are, below the directory of the layout.
const (
	bomDir     = "sbom"
	programDir = "programs"
)

// write replaces the layout in dir.
func (b *result) write(dir, tag string) error {
	if err := clearLayout(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(b.index, layout.WithAnnotations(map[string]string{labelRefName: tag})); err != nil {
		return err
	}
	if err := writeAll(filepath.Join(dir, bomDir), b.boms, 0o644); err != nil {
		return err
	}
	return writeAll(filepath.Join(dir, programDir), b.programs, 0o755)
}

func writeAll(dir string, files map[string][]byte, mode fs.FileMode) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, mode); err != nil {
			return err
		}
	}
	return nil
}

// clearLayout removes dir, if it is a layout.
func clearLayout(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
		return fmt.Errorf("it is not empty, and not an image either: %w", err)
	}
	return os.RemoveAll(dir)
}

// archive builds the image for one platform into an archive with the given name for it.
func (r recipe) archive(ctx context.Context, platform v1.Platform, file, as string) error {
	tag, err := name.NewTag(as) // images of tests may have the short names that Docker completes
	if err != nil {
		return err
	}
	r.platforms = []v1.Platform{platform}
	built, err := r.build(ctx)
	if err != nil {
		return err
	}
	manifest, err := built.index.IndexManifest()
	if err != nil {
		return err
	}
	image, err := built.index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, image)
}

// push copies the image of a layout to a registry, byte for byte, and returns its name there with its digest.
func push(ctx context.Context, dir, to string) (string, error) {
	tag, err := name.NewTag(to, name.StrictValidation)
	if err != nil {
		return "", err
	}
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", dir, err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", dir, err)
	}
	if len(manifest.Manifests) != 1 {
		return "", fmt.Errorf("%s has %d images, want 1", dir, len(manifest.Manifests))
	}
	digest := manifest.Manifests[0].Digest
	index, err := root.ImageIndex(digest)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", dir, err)
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("pushing %s: %w", tag, err)
	}
	return tag.Context().Digest(digest.String()).String(), nil
}
