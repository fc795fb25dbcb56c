package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/proxy"
)

// fillAttempts is how often an instance is started until nothing else goes on meanwhile.
const fillAttempts = 3

// Scopes shows what it saves to limit an instance to some namespaces. Each instance finds everything imported, so it
// only fills its caches; the one before has stopped.
type Scopes struct {
	// Namespaces and Clusters are in the scope, of all those of the crowd.
	Namespaces    int `json:"namespaces"`
	AllNamespaces int `json:"allNamespaces"`
	Clusters      int `json:"clusters"`
	AllClusters   int `json:"allClusters"`
	// Instances begin with the one for all namespaces.
	Instances []*Scoped `json:"instances"`
}

// Scoped is one instance. Ratios are to the one for all namespaces.
type Scoped struct {
	Name string   `json:"name"`
	Args []string `json:"args,omitempty"`
	// Clusters are in its scope.
	Clusters int `json:"clusters"`
	// Start is what was received by kind until nothing came any more, and Changes what came after it when every CAPI
	// cluster of the crowd and its record had changed once.
	Start   map[string]Received `json:"start"`
	Changes map[string]Received `json:"changes"`
	// Stray is how many of the events of Start were changes; more than none says that the start was not on an idle stage.
	Stray int `json:"strayEvents"`
	// InScope and Everywhere are sums of Start: kinds that the scope limits and those that it cannot.
	InScope    Received `json:"inScope"`
	Everywhere Received `json:"everywhere"`
	// Changed is the sum of Changes in kinds that the scope limits.
	Changed     Received `json:"changed"`
	CPUSeconds  float64  `json:"cpuSeconds"`
	PeakMiB     float64  `json:"peakMiB"`
	PeakAnonMiB float64  `json:"peakAnonMiB"`
	Ratios      struct {
		Objects     float64 `json:"inScopeObjects"`
		Bytes       float64 `json:"inScopeBytes"`
		Changed     float64 `json:"changedBytes"`
		CPU         float64 `json:"cpu"`
		PeakAnonMiB float64 `json:"peakAnon"`
	} `json:"ratios"`
}

// compareScopes measures the instances one after the other, on the clusters that were imported.
func (r *run) compareScopes(ctx context.Context) error {
	if r.options.Scope == 0 {
		return nil
	}
	crowd := crowdIn(r.members)
	namespaces := namespacesOf(crowd)
	mine, notMine := namespaces[:r.options.Scope], namespaces[r.options.Scope:]
	s := &Scopes{Namespaces: len(mine), AllNamespaces: len(namespaces), AllClusters: len(crowd)}
	for _, m := range crowd {
		if slices.Contains(mine, m.namespace) {
			s.Clusters++
		}
	}
	// The name is the one that the others have by default, so all are one instance to the clusters, and
	// to the rights on its Lease.
	for i, scoped := range []*Scoped{
		{Name: "all namespaces", Clusters: s.AllClusters},
		{Name: "--namespace", Clusters: s.Clusters, Args: []string{"--instance=archelon", "--namespace=" + strings.Join(mine, ",")}},
		{Name: "--excluded-namespace", Clusters: s.Clusters, Args: []string{"--instance=archelon", "--excluded-namespace=" + strings.Join(notMine, ",")}},
	} {
		r.say("starting the manager anew: %s", scoped.Name)
		if err := r.measureScope(ctx, scoped, crowd, i+1); err != nil {
			return fmt.Errorf("measuring %s: %w", scoped.Name, err)
		}
		s.add(scoped)
	}
	r.result.Scopes = s
	return nil
}

// measureScope starts an instance behind a proxy that counts.
func (r *run) measureScope(ctx context.Context, scoped *Scoped, crowd []member, round int) error {
	gateway, err := proxy.Start(r.stage.Management.Config)
	if err != nil {
		return err
	}
	defer gateway.Stop()
	r.stage.Through = gateway.Through
	defer func() { r.stage.Through = nil }()
	t, err := r.fill(ctx, gateway, scoped)
	if err != nil {
		return err
	}
	if err := r.changeAll(ctx, crowd, round); err != nil {
		return err
	}
	if err := r.awaitChanges(ctx, scoped, t); err != nil {
		return err
	}
	if err := r.quiet(ctx, t.quietSince); err != nil {
		return err
	}
	all, err := t.soFar()
	if err != nil {
		return err
	}
	scoped.Changes = map[string]Received{}
	for kind, received := range all {
		scoped.Changes[kind] = received.since(scoped.Start[kind])
	}
	now, err := measure()
	if err != nil {
		return err
	}
	peaks := r.memory.soFar()
	scoped.CPUSeconds, scoped.PeakMiB, scoped.PeakAnonMiB = now.processes["archelon"].CPUSeconds, peaks.Peak, peaks.Anon
	// The connections of a manager are gone before those of the proxy are.
	r.memory.stop()
	return r.manager.Stop()
}

// fill starts an instance and waits until nothing comes any more. If something changed meanwhile, because Rancher was
// not done with the imports, it begins anew: then more was sent than what fills the caches.
func (r *run) fill(ctx context.Context, gateway *proxy.Proxy, scoped *Scoped) (*traffic, error) {
	for attempt := 1; ; attempt++ {
		t := newTraffic()
		gateway.Observe(t.observe)
		if err := r.restart(ctx, scoped.Args...); err != nil {
			return nil, err
		}
		if err := r.quiet(ctx, t.quietSince); err != nil {
			return nil, err
		}
		var err error
		if scoped.Start, err = t.soFar(); err != nil {
			return nil, err
		}
		if scoped.Stray = stray(scoped.Start); scoped.Stray == 0 || attempt == fillAttempts {
			return t, nil
		}
	}
}

// stray counts the events that did not fill a cache.
func stray(received map[string]Received) int {
	count := 0
	for kind, r := range received {
		if kind != leases { // they are renewed, and no scope matters to that
			count += r.Events - r.Objects
		}
	}
	return count
}

// changeAll changes the status of every CAPI cluster, as CAPI often does, and every record, as Rancher does. None of it
// gives an importer anything to do.
func (r *run) changeAll(ctx context.Context, crowd []member, round int) error {
	records := &metav1.PartialObjectMetadataList{}
	records.SetGroupVersionKind(recordKind(r.options.Strategy))
	if err := r.stage.Client.List(ctx, records); err != nil {
		return fmt.Errorf("listing records: %w", err)
	}
	var changes []func() error
	for _, m := range crowd {
		cluster := builder.Cluster(m.namespace, m.name)
		patch := fmt.Appendf(nil, `{"status":{"observedGeneration":%d}}`, round)
		changes = append(changes, func() error {
			return r.stage.Client.Status().Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", patch))
		})
	}
	for i := range records.Items {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"bench":"%d"}}}`, round)
		changes = append(changes, func() error {
			return r.stage.Client.Patch(ctx, &records.Items[i], client.RawPatch("application/merge-patch+json", patch))
		})
	}
	return severally(changes)
}

// awaitChanges waits until the instance was sent what changeAll has changed in its scope.
func (r *run) awaitChanges(ctx context.Context, scoped *Scoped, t *traffic) error {
	timed, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	for {
		now, err := t.soFar()
		if err != nil {
			return err
		}
		missing := false
		for _, kind := range []string{"clusters.cluster.x-k8s.io", "clusters." + recordKind(r.options.Strategy).Group} {
			missing = missing || now[kind].since(scoped.Start[kind]).Events < scoped.Clusters
		}
		if !missing {
			return nil
		}
		if err := r.pause(timed, poll); err != nil {
			return fmt.Errorf("waiting for the changes in the scope: %w", err)
		}
	}
}
