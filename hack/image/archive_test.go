package main

import (
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestArchive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.tar")
	const as = "rancher/rancher-agent:v2"
	err := runArchive(t.Context(), []string{"--package=./hack/flags", "--program=flags", "--user=0:0", "--out=" + file, as})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(as)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatalf("the archive has no image %s: %v", tag, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("the image is for %s/%s", config.OS, config.Architecture)
	}
	if config.Config.User != "0:0" {
		t.Errorf("it runs as %q", config.Config.User)
	}
	if diff := cmp.Diff([]string{"/flags"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"flags"}, slices.Collect(maps.Keys(contents(t, image)))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
