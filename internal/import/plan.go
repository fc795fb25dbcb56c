package importer

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/workload"
)

// Planner runs the controller on a management cluster that is none. It observes, decides and acts as the controller
// does, for it is the controller: where its actions end up is a matter of its client. It
// looks into no workload cluster.
type Planner struct {
	r     *Reconciler
	begin func(action string)
}

// PlannerOptions are what a Planner works with. All are required unless they say otherwise.
type PlannerOptions struct {
	// Rules decide what is done.
	Rules Rules
	// Client reads what the manager's caches show, and is written to.
	Client client.Client
	// APIReader reads all that there is.
	APIReader client.Reader
	// Rancher and RancherReader do the same in Rancher's cluster. Optional: it is the management cluster.
	Rancher       client.Client
	RancherReader client.Reader
	// Indexes are those of the caches. It reads display names as well.
	Indexes Indexed
	// Runs, Keeps and Principals are those of the Reconciler. Optional.
	Runs       func(instance string) bool
	Keeps      func(cluster client.Object, namespace map[string]string) bool
	Principals Principals
	// Begin is told of each action before it is done.
	Begin func(action string)
}

// Planned is what came of a run.
type Planned struct {
	// Intent is what the run set out to do, Phase the rule that decided last.
	Intent, Phase string
	// Outcome is how it ended.
	Outcome outcome.Outcome
	// Agent: the agent in the workload cluster would be looked at now.
	Agent bool
}

// NewPlanner returns a Planner that remembers nothing, as a manager that has just started.
func NewPlanner(ctx context.Context, opts PlannerOptions) (*Planner, error) {
	workloads, err := workload.NewClients(opts.APIReader, workload.Options{})
	if err != nil {
		return nil, err
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	return newPlanner(ctx, opts, workloads, metrics)
}

func newPlanner(ctx context.Context, opts PlannerOptions, workloads *workload.Clients, metrics *Metrics) (*Planner, error) {
	settings, err := rancher.NewSettings(opts.Client)
	if err != nil {
		return nil, err
	}
	tokens, err := rancher.NewTokens(opts.Client, opts.APIReader)
	if err != nil {
		return nil, err
	}
	r := &Reconciler{
		Rules: opts.Rules, Client: opts.Client, APIReader: opts.APIReader, Rancher: opts.Rancher, RancherReader: opts.RancherReader, Recorder: silent{}, Settings: settings,
		Tokens: tokens, Workloads: workloads, Metrics: metrics, Runs: opts.Runs, Keeps: opts.Keeps, Principals: opts.Principals,
		Clock: clock.RealClock{},
		// Jobs that nobody starts wait for that, so no work in a workload cluster begins.
		jobs:   newJobs(defaultJobs, clock.RealClock{}),
		memory: newMemory(), tokenSecrets: opts.Client, assigned: opts.Client,
	}
	r.steps.atOnce = true // A plan says what comes of each run.
	if err := r.addIndexes(ctx, opts.Indexes, opts.Indexes, opts.Indexes); err != nil {
		return nil, err
	}
	return &Planner{r: r, begin: opts.Begin}, nil
}

// Run is one run of the controller for a CAPI cluster. An error means that it could not be seen to its end.
func (p *Planner) Run(ctx context.Context, key types.NamespacedName) (Planned, error) {
	o, err := p.r.observe(ctx, key)
	if err != nil {
		return Planned{}, err
	}
	d := p.r.run(ctx, o, func(o Observation, now time.Time) Decision {
		d := p.r.Decide(o, now)
		for i, action := range d.Actions {
			d.Actions[i] = announced{action, p.begin}
		}
		return d
	})
	_, err = p.r.finish(ctx, o, d)
	if d.Outcome.Kind == outcome.KindFail {
		err = nil // It is the outcome, which the controller tries again.
	}
	return Planned{Intent: d.Intent.String(), Phase: d.Phase, Outcome: d.Outcome, Agent: o.worked && !o.ended}, err
}

// announced is an action that is told of before it is done.
type announced struct {
	Action
	begin func(action string)
}

func (a announced) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	a.begin(a.String())
	return a.Action.do(ctx, r, o)
}

// silent publishes no Events.
type silent struct{}

// Eventf implements events.EventRecorder.
func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
