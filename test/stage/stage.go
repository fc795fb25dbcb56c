// Package stage sets up what an import needs around it, for e2e tests and the demo: a management cluster with the CRDs
// of CAPI and Rancher, the Rancher stand-in, workload clusters, and the manager as a program of its own, with the
// arguments and the rights that the chart gives it. Every control plane is a real one.
package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest/komega"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// ServiceAccount is the identity of the manager in config/rbac.
const (
	SystemNamespace = "archelon-system"
	ServiceAccount  = "archelon"
)

// Options say how Rancher is to be.
type Options struct {
	// Name shows in paths and logs.
	Name string
	// Rancher changes the options of the stand-in; nil leaves the defaults.
	Rancher func(*rancher.Options)
	// Workloads has Deployments, Jobs and Pods work as in a cluster, if a test/node runs them. Nothing is prepared for a
	// manager then: the test installs the chart.
	Workloads bool
	// Audit records every request to the management cluster.
	Audit bool
	// Out receives the logs of the control plane; nil discards them.
	Out io.Writer
	// Kind sets the stage there instead of on control planes of its own. Audit and Workloads come with it.
	Kind *Kind
	// Real sets the stage on a real Rancher instead of the stand-in. Audit comes with it.
	Real *Real
	// Kept sets the stage on control planes that stages use one after the other. Audit comes with it.
	Kept *Kept
}

// Stage is a management cluster with Rancher.
type Stage struct {
	Management *env.ControlPlane
	Rancher    rancher.Control
	// Client is an administrator's, without a cache.
	Client client.Client
	// Through, if set, changes how managers that are started from now on reach the management cluster.
	Through func(*rest.Config) *rest.Config
	// Values are further values of the chart for managers that are started by StartManager from now on.
	Values map[string]any
	// Launch, if set, starts managers in another way than as programs.
	Launch Launch

	kind *onKind // nil on control planes of its own
	real *Real   // nil with the stand-in
	kept *Kept   // nil unless the control planes are used by several
}

// K reads and changes what is in the management cluster.
func (s *Stage) K(ctx context.Context) komega.Komega { return komega.New(s.Client).WithContext(ctx) }

// Start starts a management cluster and the stand-in, and gives a central instance the rights
// of the chart (see Prepare).
func Start(ctx context.Context, opts Options) (*Stage, error) {
	standin := rancher.DefaultOptions(nil)
	if opts.Rancher != nil {
		opts.Rancher(&standin)
	}
	if opts.Real != nil {
		return opts.Real.start(ctx, opts.Name)
	}
	if opts.Kind != nil {
		return opts.Kind.start(ctx, standin)
	}
	management, err := startManagement(ctx, opts, standin)
	if err != nil {
		return nil, err
	}
	s := &Stage{Management: management, kept: opts.Kept}
	if err := s.start(ctx, standin); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if opts.Workloads {
		return s, nil
	}
	if err := s.Prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// startManagement starts a management cluster with the CRDs of CAPI and Rancher, or takes the one that is kept.
func startManagement(ctx context.Context, opts Options, standin rancher.Options) (*env.ControlPlane, error) {
	crds, err := env.CAPICRDs()
	if err != nil {
		return nil, err
	}
	ranchers, err := rancher.CRDs(standin.StatusSubresource)
	if err != nil {
		return nil, err
	}
	options := env.Options{
		Name: opts.Name, CRDs: append(crds, ranchers...), ControllerManager: true, Workloads: opts.Workloads, Audit: opts.Audit, Out: opts.Out,
	}
	if opts.Kept != nil {
		return opts.Kept.take(ctx, options)
	}
	return env.Start(ctx, options)
}

func (s *Stage) start(ctx context.Context, standin rancher.Options) error {
	known, err := scheme.New()
	if err != nil {
		return err
	}
	config := rest.CopyConfig(s.Management.Config)
	config.QPS = -1
	if s.Client, err = client.New(config, client.Options{Scheme: known}); err != nil {
		return err
	}
	standin.Config = s.Management.Config
	here, err := rancher.New(standin)
	if err != nil {
		return err
	}
	s.Rancher = here
	return here.Start(ctx)
}

// Prepare makes the namespace of a central instance and gives it the rights of the chart. Start has done it.
func (s *Stage) Prepare(ctx context.Context) error {
	for _, file := range []string{"namespace.yaml", "role.yaml"} { // The role is for a central instance beside others: see Install.
		if err := s.applyFile(ctx, filepath.Join("config", "rbac", file)); err != nil {
			return err
		}
	}
	_, err := s.installChart(ctx, nil)
	return err
}

// Stop ends everything that Start started.
func (s *Stage) Stop() error {
	if s.Rancher != nil {
		s.Rancher.Stop()
	}
	if s.kind != nil {
		return s.kind.stop()
	}
	return s.Management.Stop()
}

// applyFile creates or updates the objects of a YAML file of the repository.
func (s *Stage) applyFile(ctx context.Context, path string) error {
	content, err := os.ReadFile(filepath.Join(Root(), path))
	if err != nil {
		return err
	}
	objects, err := parse(content)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return s.apply(ctx, objects)
}

func (s *Stage) apply(ctx context.Context, objects []unstructured.Unstructured) error {
	for i := range objects {
		apply := client.ApplyConfigurationFromUnstructured(&objects[i])
		if err := s.Client.Apply(ctx, apply, client.FieldOwner("stage"), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %s: %w", objects[i].GetKind(), objects[i].GetName(), err)
		}
	}
	return nil
}

// parse reads the objects of a YAML file.
func parse(content []byte) ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); err != nil {
			if errors.Is(err, io.EOF) {
				return objects, nil
			}
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Workload starts a workload cluster and lets agents in it reach Rancher. On kind it is one of those that are
// there, and agents run in it.
func (s *Stage) Workload(ctx context.Context, opts env.Options) (*env.ControlPlane, error) {
	if s.kind != nil {
		return s.kind.workload(opts.Name)
	}
	if s.real != nil {
		return s.real.workload(opts.Name)
	}
	start := env.Start
	if s.kept != nil && !opts.Workloads { // Those are not kept.
		start = s.kept.take
	}
	workload, err := start(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := s.Attach(opts.Name, workload); err != nil {
		return nil, errors.Join(err, workload.Stop())
	}
	return workload, nil
}

// Attach lets agents in a workload cluster reach Rancher again, after RemoveWorkload.
func (s *Stage) Attach(name string, workload *env.ControlPlane) error {
	if s.kind != nil {
		return s.kind.attach(name, workload)
	}
	return s.Rancher.AddWorkload(name, workload.Config)
}

// Root returns the root of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}
