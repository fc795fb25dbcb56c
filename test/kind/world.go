package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/kind/pkg/cluster"

	"github.com/archelon-io/archelon/test/process"
)

// createTimeout is how long a node may take to be Ready; two cores make several clusters at once.
const createTimeout = 5 * time.Minute

// networkVariable tells kind the name of the network of its nodes. There is no other way to.
const networkVariable = "KIND_EXPERIMENTAL_DOCKER_NETWORK"

// Options say what to make.
type Options struct {
	// Keep is the name of a world that outlives the test: it is used if it is there, made otherwise, and left. For people
	// who write tests; empty makes a new one that is removed by Stop.
	Keep string
	// Workloads is the number of workload clusters.
	Workloads int
	// Out receives what kind says; nil discards it.
	Out io.Writer
}

// World is a management cluster and its workload clusters in one network.
type World struct {
	Management *Cluster
	Workloads  []*Cluster

	name     string
	keep     bool
	dir      string
	provider *cluster.Provider
	watchdog *process.Watchdog
}

// Start makes the clusters and waits until their nodes are Ready: 1 to 2 min. The caller has to call Stop. ctx bounds
// the start; kind itself takes no context, so the clusters that it is making are waited for.
func Start(ctx context.Context, opts Options) (*World, error) {
	if out, err := exec.CommandContext(ctx, "docker", "version").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("kind needs a Docker engine: %w\n%s", err, out)
	}
	w := &World{name: opts.Keep, keep: opts.Keep != ""}
	if !w.keep {
		w.name = "archelon-" + rand.String(5)
	}
	if err := w.start(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("making the clusters %s: %w", w.name, err), w.Stop())
	}
	return w, nil
}

func (w *World) start(ctx context.Context, opts Options) error {
	if err := w.makeDirectory(); err != nil {
		return err
	}
	if !w.keep {
		var err error
		if w.watchdog, err = process.OnDeath(removeScript, w.name, w.dir); err != nil {
			return err
		}
	}
	if err := os.Setenv(networkVariable, w.name); err != nil {
		return err
	}
	w.provider = cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(logger{out: opts.Out}))
	base, err := configuration(ctx, w.name, w.dir)
	if err != nil {
		return err
	}
	existing, err := w.provider.List()
	if err != nil {
		return fmt.Errorf("listing the clusters: %w", err)
	}
	clusters := []*Cluster{{Name: w.name + "-management", world: w}}
	for i := range opts.Workloads {
		clusters = append(clusters, &Cluster{Name: fmt.Sprintf("%s-workload-%d", w.name, i+1), world: w})
	}
	w.Management, w.Workloads = clusters[0], clusters[1:]
	var made sync.WaitGroup
	errs := make([]error, len(clusters))
	for i, c := range clusters {
		made.Go(func() {
			if !slices.Contains(existing, c.Name) {
				errs[i] = w.provider.Create(c.Name, cluster.CreateWithV1Alpha4Config(base.DeepCopy()),
					cluster.CreateWithNodeImage(os.Getenv("KIND_NODE_IMAGE")), cluster.CreateWithWaitForReady(createTimeout),
					cluster.CreateWithKubeconfigPath(filepath.Join(w.dir, c.Name)),
					cluster.CreateWithDisplayUsage(false), cluster.CreateWithDisplaySalutation(false))
			}
			if errs[i] == nil {
				errs[i] = c.connect()
			}
			if errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", c.Name, errs[i])
			}
		})
	}
	made.Wait()
	return errors.Join(errors.Join(errs...), ctx.Err())
}

// makeDirectory makes the directory of what the nodes mount. It is below the home directory, because an engine in a
// virtual machine, or one that is confined, may see no other one of this machine's.
func (w *World) makeDirectory() error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("looking for a directory that the engine can mount: %w", err)
	}
	w.dir = filepath.Join(cache, "archelon", "kind", w.name)
	return os.MkdirAll(w.dir, 0o700)
}
