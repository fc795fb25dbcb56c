package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// startControlPlanes starts all of them at once. The ones that came up are kept also when another fails, so that stop
// finds them.
func (w *world) startControlPlanes(ctx context.Context) error {
	crds, err := env.CAPICRDs() //nolint:contextcheck // it reads files of a module and offers no way to stop
	if err != nil {
		return err
	}
	// Rancher installs its CRDs itself. The garbage collector wants to know them from the beginning.
	ranchers, err := rancher.CRDs(true)
	if err != nil {
		return err
	}
	all := slices.Concat(crds, ranchers, w.crds)
	planes := []env.Options{{Name: "management", CRDs: all, ControllerManager: true}}
	for _, s := range w.clusters {
		opts := env.Options{Name: s.name}
		if w.everywhere {
			opts.CRDs, opts.ControllerManager = all, true
		}
		planes = append(planes, opts)
	}
	started := make([]*env.ControlPlane, len(planes))
	errs := make([]error, len(planes))
	var starts sync.WaitGroup
	for i, opts := range planes {
		starts.Go(func() { started[i], errs[i] = env.Start(ctx, opts) })
	}
	starts.Wait()
	for i, plane := range started {
		switch {
		case plane == nil:
		case i == 0:
			w.stage = &stage.Stage{Management: plane}
		default:
			w.workloads[planes[i].Name] = plane
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return w.connect()
}

// administratorOf returns a client for a cluster.
func administratorOf(plane *env.ControlPlane) (client.Client, error) {
	known, err := scheme.New()
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		return nil, fmt.Errorf("creating the client of an administrator: %w", err)
	}
	return c, nil
}

// connect makes the demo's own client and writes kubeconfigs for those who look around, and for Rancher.
func (w *world) connect() error {
	var err error
	if w.stage.Client, err = administratorOf(w.stage.Management); err != nil {
		return err
	}
	planes := map[string]*env.ControlPlane{"management": w.stage.Management}
	maps.Copy(planes, w.workloads)
	for name, plane := range planes {
		kubeconfig, err := plane.Kubeconfig()
		if err != nil {
			return err
		}
		if err := os.WriteFile(w.kubeconfig(name), kubeconfig, 0o600); err != nil {
			return fmt.Errorf("writing the kubeconfig of %s: %w", name, err)
		}
		w.kubeconfigs[name] = kubeconfig
	}
	return nil
}
