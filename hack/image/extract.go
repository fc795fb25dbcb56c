package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// extract writes programs of an image in a registry to dir, by their absolute paths in the image. It is an error if one
// is missing whose path does not end with a question mark, or is no file.
func extract(ctx context.Context, image string, platform v1.Platform, dir string, programs []string) error {
	reference, err := name.ParseReference(image)
	if err != nil {
		return err
	}
	found, err := remote.Image(reference, remote.WithContext(ctx), remote.WithPlatform(platform), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return fmt.Errorf("asking for %s: %w", image, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	content := mutate.Extract(found)
	defer func() { _ = content.Close() }()
	missing := map[string]bool{} // whether they have to be there
	for _, program := range programs {
		at, optional := strings.CutSuffix(program, "?")
		missing[path.Clean(at)] = !optional
	}
	files := tar.NewReader(content)
	for len(missing) > 0 {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", image, err)
		}
		at := path.Clean("/" + header.Name)
		if _, wanted := missing[at]; !wanted {
			continue
		}
		if header.Typeflag != tar.TypeReg {
			return fmt.Errorf("%s of %s is no file", at, image)
		}
		if err := writeProgram(filepath.Join(dir, path.Base(at)), files); err != nil {
			return err
		}
		delete(missing, at)
	}
	maps.DeleteFunc(missing, func(_ string, required bool) bool { return !required })
	if len(missing) > 0 {
		return fmt.Errorf("%s has no %s", image, strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return nil
}

func writeProgram(target string, from io.Reader) error {
	file, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
