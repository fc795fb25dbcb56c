package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/archelon-io/archelon/test/kind"
)

// PushedImage is the manager's image as those have it who follow a quick start of the documentation.
const PushedImage = "registry.example.com/archelon:v0.1.0"

// The names under which the images are loaded. The first is that of the chart by itself, the last
// that of Rancher's manifest.
const (
	managerImage = "ghcr.io/archelon-io/archelon:v0.1.0"
	rancherImage = "archelon.test/rancher-standin:v1"
	agentImage   = "rancher/rancher-agent:v2.15.0"
)

// image is one that is built for clusters which have no registry.
type image struct {
	name, program, pkg, user string
	// clusters are those that run it.
	clusters []*kind.Cluster
}

// managerImages are that of the manager, under both of its names.
func managerImages(world *kind.World) []image {
	var images []image
	for _, name := range []string{managerImage, PushedImage} {
		images = append(images, image{name, "archelon", ".", "65532:65532", []*kind.Cluster{world.Management}})
	}
	return images
}

// standinImages are those of what stands in for Rancher.
func standinImages(world *kind.World) []image {
	return []image{
		{rancherImage, "rancher-standin", "./test/standin/rancher/cmd/rancher-standin", "65532:65532", []*kind.Cluster{world.Management}},
		// As Rancher's agent does: its credentials are for root only.
		{agentImage, "cattle-cluster-agent", "./test/standin/agent/cmd/cattle-cluster-agent", "0:0", world.Workloads},
	}
}

// loadImages builds images, with hack/image and so as the released one is built, and loads each into the clusters that
// run it.
func loadImages(ctx context.Context, images []image) error {
	dir, err := os.MkdirTemp("", "archelon-images-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // of no use to anyone
	for i, image := range images {
		archive := filepath.Join(dir, fmt.Sprintf("%d.tar", i))
		cmd := exec.CommandContext(ctx, "go", "run", ".", "archive",
			"--package="+image.pkg, "--program="+image.program, "--user="+image.user, "--out="+archive, image.name)
		cmd.Dir = filepath.Join(Root(), "hack", "image")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building image %s: %w\n%s", image.name, err, out)
		}
		var errs []error
		for _, cluster := range image.clusters {
			errs = append(errs, cluster.Load(archive))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}
