// Package outage is about a Rancher in another cluster that does not answer any more. CAPI Clusters can be deleted all
// the same: after a while their finalizers are removed. Their Rancher clusters stay, and are counted when Rancher
// answers again. A person deletes them.
//
// It works with the management cluster alone, because the import does not start before Rancher has answered. It has the
// permissions of the import.
package outage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/shard"
)

const (
	// releasedEvent is the reason of the Event on a CAPI Cluster.
	releasedEvent = "ReleasedWithoutRancher"
	// reporter names this part in Events.
	reporter = "archelon.io/rancher-outage"
	// asks is how often Rancher is asked before it counts as away.
	asks = 20
	// patience is how long one answer may take.
	patience = 10 * time.Second
	// page is how many CAPI Clusters are read at once. Tenants write them, and one can have more than 1 MiB.
	page = 50
)

// Options are what Releaser needs. All are required, except for the logger.
type Options struct {
	// Ask makes a request to Rancher's API, and returns nil if that has answered. Refused credentials are no answer.
	Ask func(context.Context) error
	// Reader reads from the API server of the management cluster, and Client writes to it as long as this process is the
	// leader.
	Reader client.Reader
	Client client.Client
	// Events are those of the management cluster.
	Events eventsclient.EventsGetter
	// Self is this instance, and Scope the namespaces that it works in.
	Self  instance.ID
	Scope shard.Scope
	// After is for how long Rancher has not answered when it counts as away.
	After time.Duration
	// Logger has what administrators are told.
	Logger logr.Logger
}

// Releaser releases CAPI Clusters that are being deleted while Rancher is away. It is a manager.Runnable of the leader.
type Releaser struct {
	Options
	rules

	// answered is when Rancher answered for the last time. It begins with the start of the Releaser, so that a restart
	// releases nothing at once.
	answered time.Time
	// told is whether the log says that Rancher is away.
	told bool
}

// NewReleaser fails if an option is missing.
func NewReleaser(o Options) (*Releaser, error) {
	if o.Ask == nil || o.Reader == nil || o.Client == nil || o.Events == nil || o.Self.Name == "" || o.After <= 0 {
		return nil, errors.New("releasing Clusters without Rancher needs clients, an instance and a duration")
	}
	return &Releaser{Options: o, rules: rules{after: o.After, self: o.Self.String(), scope: o.Scope}}, nil
}

// Start implements manager.Runnable.
func (r *Releaser) Start(ctx context.Context) error {
	r.answered = time.Now()
	wait.UntilWithContext(ctx, r.look, r.After/asks)
	return nil
}

// look asks Rancher, and releases what waits for it if it is away.
func (r *Releaser) look(ctx context.Context) {
	cause := r.ask(ctx)
	now := time.Now()
	if cause == nil {
		r.answered = now
	}
	if ctx.Err() != nil {
		return
	}
	away := r.away(now, r.answered)
	r.tell(away, cause)
	if !away {
		return
	}
	clusters, err := r.clusters(ctx)
	if err != nil {
		r.Logger.Error(err, "Looking for CAPI Clusters that wait for Rancher failed; trying again")
		return
	}
	for _, one := range r.decide(observation{now: now, answered: r.answered, clusters: clusters}) {
		if err := r.release(ctx, one); err != nil && ctx.Err() == nil {
			r.Logger.Error(err, "Releasing a CAPI Cluster without Rancher failed; trying again",
				"cluster", client.ObjectKeyFromObject(one.cluster).String())
		}
	}
}

func (r *Releaser) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.Ask(ctx)
}

// tell logs that Rancher is away, and that it answers again.
func (r *Releaser) tell(away bool, cause error) {
	switch {
	case away == r.told:
		return
	case away:
		r.Logger.Info("Rancher does not answer. CAPI Clusters that are deleted are released without it, and their Rancher "+
			"clusters stay in Rancher", "since", r.answered, "cause", cause.Error())
	default:
		r.Logger.Info("Rancher answers again. \"archelon status --orphans\" lists Rancher clusters without a CAPI Cluster")
	}
	r.told = away
}

// clusters reads the CAPI Clusters that are being deleted and are held by an import.
func (r *Releaser) clusters(ctx context.Context) ([]clusterv1.Cluster, error) {
	var found []clusterv1.Cluster
	for next := ""; ; {
		list := &clusterv1.ClusterList{}
		if err := r.Reader.List(ctx, list, client.Limit(page), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("listing CAPI Clusters: %w", err)
		}
		for i := range list.Items {
			if one := &list.Items[i]; !one.DeletionTimestamp.IsZero() && hold.Import.On(one) {
				found = append(found, *one)
			}
		}
		if next = list.Continue; next == "" {
			return found, nil
		}
	}
}

// release tells the owner of a CAPI Cluster, and then takes the finalizer off.
func (r *Releaser) release(ctx context.Context, one release) error {
	key := client.ObjectKeyFromObject(one.cluster).String()
	err := r.publish(ctx, one)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err): // The namespace is being deleted, for example.
		r.Logger.Error(err, "Publishing an Event failed; the Cluster is released without it", "cluster", key)
	case err != nil:
		return fmt.Errorf("publishing an Event: %w", err)
	}
	err = hold.Release(ctx, r.Client, one.cluster, func() { hold.Imports().Drop(one.cluster, false) })
	if err != nil {
		return err
	}
	r.Logger.Info("Released a CAPI Cluster that is being deleted, because Rancher does not answer. Its Rancher cluster "+
		"stays: delete it in Rancher", "cluster", key, "rancherCluster", one.rancherCluster)
	return nil
}

// publish creates the Event on a CAPI Cluster, once: the name follows from the UID. That of a Cluster may be too long.
func (r *Releaser) publish(ctx context.Context, one release) error {
	cluster := one.cluster
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "rancher-outage." + string(cluster.UID)},
		EventTime:  metav1.NowMicro(), ReportingController: reporter, ReportingInstance: fmt.Sprintf("%.128s", r.self),
		Type: corev1.EventTypeWarning, Reason: releasedEvent, Action: "Release", Note: one.note,
		Regarding: corev1.ObjectReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name,
			UID: cluster.UID, ResourceVersion: cluster.ResourceVersion,
		},
	}
	_, err := r.Events.Events(cluster.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
