package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/bench/lightrancher"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Values of --rancher.
const (
	rancherLight   = "light"
	rancherStandin = "standin"
)

// etcdQuota suffices for 10,000 clusters with ten machines each: their Secrets are 600 MiB, and each is kept in several
// versions for minutes.
const etcdQuota = 8 << 30

// side is Rancher in the benchmark.
type side interface {
	// run lets an agent run in a workload cluster once it is installed there.
	run(cluster string, config *rest.Config) error
	// installed says that the agent was installed in a workload cluster.
	installed(cluster string)
	// downloads returns when manifests were asked for.
	downloads() []time.Time
	// err returns what went wrong on Rancher's side.
	err() error
	stop()
}

// lightSide connects agents when their installation was seen; nothing runs in workload clusters.
type lightSide struct {
	*lightrancher.Rancher
	delay time.Duration
}

func (l lightSide) run(string, *rest.Config) error { return nil }
func (l lightSide) installed(cluster string)       { l.Connect(cluster, l.delay) }
func (l lightSide) downloads() []time.Time         { return l.Downloads() }
func (l lightSide) err() error                     { return l.Err() }
func (l lightSide) stop()                          { l.Stop() }

// standinSide watches workload clusters and plays their agents. The stage stops it.
type standinSide struct{ rancher.Control }

func (s standinSide) run(cluster string, config *rest.Config) error {
	return s.AddWorkload(cluster, config)
}

func (s standinSide) downloads() []time.Time {
	var times []time.Time
	for _, request := range s.ImportRequests() {
		times = append(times, request.Time)
	}
	return times
}

func (standinSide) installed(string) {}
func (standinSide) err() error       { return nil }
func (standinSide) stop()            {}

// startManagement starts the management cluster and Rancher in it.
func startManagement(ctx context.Context, o *options) (*stage.Stage, side, error) {
	if o.Rancher == rancherStandin {
		s, err := stage.Start(ctx, stage.Options{Name: "bench", Audit: true, Rancher: func(standin *rancher.Options) {
			standin.Timings.AgentStart = o.AgentDelay
		}})
		if err != nil {
			return nil, nil, err
		}
		return s, standinSide{s.Rancher}, nil
	}
	crds, err := env.CAPICRDs()
	if err != nil {
		return nil, nil, err
	}
	ranchers, err := rancher.CRDs(true)
	if err != nil {
		return nil, nil, err
	}
	management, err := startLimited(ctx, env.Options{
		Name: "bench", CRDs: append(crds, ranchers...), ControllerManager: true, Audit: true,
		AuditUsers: []string{managerUser}, EtcdQuota: etcdQuota,
	})
	if err != nil {
		return nil, nil, err
	}
	s := &stage.Stage{Management: management}
	light, err := startLight(ctx, s, o.Prepares)
	if err != nil {
		return nil, nil, errors.Join(err, s.Stop())
	}
	return s, lightSide{Rancher: light, delay: o.AgentDelay}, nil
}

// controlPlaneMemory is from where on the programs of the control plane collect garbage more often. With 10,000
// clusters the API server would take half as much again.
const controlPlaneMemory = "7GiB"

// startLimited starts a control plane whose programs inherit the limit. The manager, which comes later, does not.
func startLimited(ctx context.Context, opts env.Options) (*env.ControlPlane, error) {
	const name = "GOMEMLIMIT"
	if os.Getenv(name) == "" {
		if err := os.Setenv(name, controlPlaneMemory); err != nil {
			return nil, err
		}
		defer func() { _ = os.Unsetenv(name) }() // it was set a moment ago
	}
	return env.Start(ctx, opts)
}

// startLight completes a stage without the stand-in.
func startLight(ctx context.Context, s *stage.Stage, prepares time.Duration) (*lightrancher.Rancher, error) {
	known, err := scheme.New()
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(s.Management.Config)
	config.QPS = -1
	if s.Client, err = client.New(config, client.Options{Scheme: known}); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if err := s.Prepare(ctx); err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(filepath.Join(stage.Root(), "test", "standin", "rancher", "manifest.yaml.tmpl"))
	if err != nil {
		return nil, err
	}
	return lightrancher.Start(ctx, config, string(manifest), prepares)
}
