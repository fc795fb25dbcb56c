// Package plan says what the manager would do with CAPI clusters: "archelon plan". It reads the management cluster
// once, and has the import work on a copy in memory until nothing more follows. It writes nothing.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/identity"
	importer "github.com/archelon-io/archelon/internal/import"
	importv3 "github.com/archelon-io/archelon/internal/import/v3"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// Cluster is what the manager would do with a CAPI cluster, until it waits for others. Its form in JSON and YAML stays
// as it is.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Intent is what the manager sets out to do.
	Intent string `json:"intent"`
	// Changes are what it would write to the management cluster, in this order.
	Changes []Change `json:"changes"`
	// Agent is set if what it does next depends on the workload cluster, into which nobody has looked.
	Agent string `json:"agent,omitempty"`
	// Delivery names the Secret with the manifest of Rancher's agent, NAMESPACE/NAME, if other means than the manager
	// install the agent.
	Delivery string `json:"delivery,omitempty"`
	// Kubeconfig is where annotations of the cluster have its kubeconfig: NAME/KEY of a Secret in its namespace, and the
	// context behind a space. Empty if they say nothing.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Reason and Message say what comes of it, or what it waits for, as condition RancherImported does.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// agentUnseen is what is said about an agent that the manager would look at.
const agentUnseen = "not looked at"

// ErrChanges is that something would change.
var ErrChanges = errors.New("something would change")

// Options say what is asked.
type Options struct {
	// Manager are the options that the manager is to have.
	Manager *options.Options
	// Which are "<namespace>" or "<namespace>/<name>"; all clusters if there are none.
	Which []string
	// Labels are "<namespace>" or "<namespace>/<name>" where the import label is about to be set, with "=<value>"
	// behind.
	Labels []string
}

// Look returns the plans of the clusters that are asked for, in the order of their names. All that it needs is a list
// of each kind.
func Look(ctx context.Context, from From, opts Options) ([]Cluster, error) {
	ctx = ctrl.LoggerInto(ctx, logr.Discard())
	found, err := load(ctx, from, opts.Manager)
	if err != nil {
		return nil, err
	}
	if err := found.label(opts.Labels); err != nil {
		return nil, err
	}
	p, err := newPlans(ctx, found, opts)
	if err != nil {
		return nil, err
	}
	return p.all(ctx, found.keys(p.cached), opts.Which)
}

// label sets the import label where it is about to be set.
func (f *found) label(wishes []string) error {
	for _, wish := range wishes {
		where, value, given := strings.Cut(wish, "=")
		if !given {
			value = "true"
		}
		namespace, name, named := strings.Cut(where, "/")
		kind, key := corev1.SchemeGroupVersion.WithKind("Namespace"), client.ObjectKey{Name: namespace}
		if named {
			kind, key = clusterv1.GroupVersion.WithKind("Cluster"), client.ObjectKey{Namespace: namespace, Name: name}
		}
		object := f.world.table(kind).objects[key]
		if object == nil {
			return fmt.Errorf("--label: there is no %s %s", kind.Kind, where)
		}
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[archelonv1.ImportLabel] = value
		object.SetLabels(labels)
	}
	return nil
}

// keys are the CAPI clusters, and those that are gone and whose Rancher clusters are still there.
func (f *found) keys(seen cached) []client.ObjectKey {
	keys := slices.Clone(f.clusters)
	for _, kind := range hold.Imports().Kinds()[1:] {
		for _, record := range f.world.table(kind).objects {
			labels := record.GetLabels()
			namespace := cmp.Or(labels[archelonv1.OwnerNamespaceLabel], record.GetNamespace())
			key := client.ObjectKey{Namespace: namespace, Name: labels[archelonv1.OwnerNameLabel]}
			if key.Namespace != "" && key.Name != "" && seen.shows(kind, record) {
				keys = append(keys, key)
			}
		}
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(keys)
}

// plans makes plans in a world.
type plans struct {
	world   *world
	cached  cached
	origin  types.UID
	planner *importer.Planner
	claim   instance.Claim
	// manual is whether other means may install agents.
	manual bool
	made   map[client.ObjectKey]*Cluster
	seen   map[client.ObjectKey]map[string]bool
}

func newPlans(ctx context.Context, f *found, opts Options) (*plans, error) {
	self, before, claim, err := f.place(opts.Manager)
	if err != nil {
		return nil, err
	}
	if claim.Scope.Empty() {
		return nil, fmt.Errorf("instance %s would get no namespace beside others; archelon check says who has them", self)
	}
	rules, err := setup.ImportRules(opts.Manager, self, claim, f.from.Origin, f.from.Display)
	if err != nil {
		return nil, err
	}
	if _, random := rules.Active.(importv3.Strategy); random {
		rules.Active = unnamed{}
	}
	shown, err := shown(f.world, claim.Scope, opts.Manager.TurtlesNamespaces, f.from.Origin)
	if err != nil {
		return nil, err
	}
	p := &plans{
		world: f.world, cached: cached{f.world, shown}, origin: f.from.Origin, claim: claim,
		manual: rules.ManualDelivery,
		made:   map[client.ObjectKey]*Cluster{}, seen: map[client.ObjectKey]map[string]bool{},
	}
	if err := p.leave(ctx, self, setup.Given(before, claim.Scope, opts.Manager.ExcludedNamespaces)); err != nil {
		return nil, err
	}
	var permitted importer.Principals
	if opts.Manager.Gates.Enabled(feature.OCIClusterIdentity) {
		from := identity.Readers{Objects: f.world, Metadata: f.world}
		permitted = principals{setup.IdentityResolver(opts.Manager, claim.Scope, from, f.world)}
	}
	p.planner, err = importer.NewPlanner(ctx, importer.PlannerOptions{
		Rancher: p.cached, RancherReader: inRancher{f.world, p.origin != ""},
		Principals: permitted, Rules: rules, Client: p.cached, APIReader: f.world, Indexes: f.world,
		Runs: f.runs, Keeps: f.keeps(self, claim),
		Begin: func(does string) { f.world.does = does },
	})
	return p, err
}

// principals does not tell of changes: nothing changes.
type principals struct{ *identity.Resolver }

// Subscribe implements importer.Principals.
func (principals) Subscribe(func(string, types.NamespacedName)) {}

// mostRuns is how many runs may follow on each other for one cluster. Two are usual: the second one finds nothing to
// do.
const mostRuns = 8

// all makes the plans of all clusters, because what one gets another one may not, a display name for example. It
// returns those that are asked for.
func (p *plans) all(ctx context.Context, clusters []client.ObjectKey, which []string) ([]Cluster, error) {
	for _, key := range clusters {
		if !p.claim.Scope.Owns(key.Namespace) {
			continue
		}
		if err := p.one(ctx, key); err != nil {
			return nil, fmt.Errorf("planning for CAPI cluster %s: %w", key, err)
		}
	}
	plans := []Cluster{}
	for _, name := range which {
		known := func(key client.ObjectKey) bool { return key.String() == name && p.made[key] != nil }
		if strings.Contains(name, "/") && !slices.ContainsFunc(clusters, known) {
			return nil, fmt.Errorf("there is no CAPI cluster %s in the namespaces of the instance", name)
		}
	}
	for _, key := range clusters {
		made := p.made[key]
		if made != nil && (len(which) == 0 || slices.Contains(which, key.Namespace) || slices.Contains(which, key.String())) {
			plans = append(plans, *made)
		}
	}
	return plans, nil
}

// one runs the import for a cluster until a run writes nothing new: what it writes has it run again.
func (p *plans) one(ctx context.Context, key client.ObjectKey) error {
	made := p.made[key]
	if made == nil {
		made = &Cluster{Namespace: key.Namespace, Name: key.Name, Changes: []Change{}}
		p.made[key], p.seen[key] = made, map[string]bool{}
	}
	for range mostRuns {
		p.world.changes = nil
		run, err := p.planner.Run(ctx, key)
		if err == nil && errors.Is(run.Outcome.Err, errors.ErrUnsupported) {
			err = run.Outcome.Err
		}
		if err != nil {
			return err
		}
		news := false
		for _, change := range p.world.changes {
			text := change.Verb + change.Resource + change.Does
			news = news || !p.seen[key][text]
			p.seen[key][text] = true
		}
		if made.Intent == "" {
			made.Intent = run.Intent
		} else if !news {
			return nil
		}
		made.Changes = append(made.Changes, p.world.changes...)
		made.Agent, made.Reason, made.Message = "", run.Outcome.Reason, run.Outcome.Message
		if run.Agent {
			made.Agent = agentUnseen
		}
		p.connection(key, made)
		if made.Reason == "" {
			made.Reason, made.Message = p.condition(key)
		}
		if len(p.world.changes) == 0 {
			return nil
		}
	}
	return nil
}

// connection says how the agent of a cluster that is imported gets there, where annotations of the cluster say so.
func (p *plans) connection(key client.ObjectKey, made *Cluster) {
	made.Delivery, made.Kubeconfig = "", ""
	cluster, ok := p.world.table(clusterv1.GroupVersion.WithKind("Cluster")).objects[key].(*clusterv1.Cluster)
	if !ok || made.Intent != "import" {
		return
	}
	if manual, err := agent.ManualDelivery(cluster.Annotations); err == nil && manual && p.manual {
		made.Delivery = key.Namespace + "/" + agent.ManifestSecretName(key.Name)
		return // Nothing connects to the workload cluster.
	}
	from, err := kubeconfig.Of(cluster)
	if usual := kubeconfig.Default(key); err == nil && from != usual {
		made.Kubeconfig = strings.TrimSpace(from.Secret.Name + "/" + from.Key + " " + from.Context)
	}
}

// condition returns what the condition of a cluster says then.
func (p *plans) condition(key client.ObjectKey) (reason, message string) {
	cluster, ok := p.world.table(clusterv1.GroupVersion.WithKind("Cluster")).objects[key].(*clusterv1.Cluster)
	if !ok {
		return "", ""
	}
	if imported := meta.FindStatusCondition(cluster.GetConditions(), archelonv1.RancherImportedCondition); imported != nil {
		return imported.Reason, imported.Message
	}
	return "", ""
}

// changes reports whether something would change.
func changes(plans []Cluster) error {
	if slices.ContainsFunc(plans, func(c Cluster) bool { return len(c.Changes) > 0 }) {
		return ErrChanges
	}
	return nil
}
