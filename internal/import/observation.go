package importer

import (
	"fmt"
	"net/url"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/import/turtles"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// Observation is all that a run knows: what it has read, what is remembered, and what it has done itself. What costs a
// request, or is needed seldom, is read when the rules ask for it.
type Observation struct {
	key types.NamespacedName
	// outside: the namespace is none of this instance's; withdrawn: it was taken from the instance while that runs.
	outside, withdrawn bool
	// cluster is a copy of the cached CAPI cluster, renewed by each write. It is nil if there is none.
	cluster *clusterv1.Cluster
	// behind: the cache has yet to show what this process wrote to the cluster.
	behind bool
	// kept: another instance, which selects namespaces by their labels, has yet to leave the cluster.
	kept bool
	// namespace are the labels of the Namespace if it has the import label, or the instance selects namespaces by their
	// labels; assigning those if it says who is to import.
	namespace, assigning map[string]string
	// records name the cluster as their owner; derived are Rancher's own companions of such records.
	records, derived []record

	// agentGone: the agent was seen to have gone from the workload cluster.
	agentGone bool
	// creation is the record that this process created for the cluster a moment ago.
	creation creation
	// holding is the incarnation of the cluster that carried our finalizer when it was seen last.
	holding types.UID
	// taken is from which process of Turtles the cluster was taken.
	taken turtles.Taking

	answers
	deeds
}

// answers are what the rules have asked for.
type answers struct {
	// answered are the questions that were asked.
	answered map[string]bool
	// current are copies of the CAPI cluster from the API server, by why it was asked for; nil if there is none.
	current map[string]*clusterv1.Cluster
	// live are records from the API server by their identity, nil if there is none of that name.
	live map[string]*record
	// twins are the CAPI clusters of the name of a v1 record, and namespaces those of the name of a v3 record.
	twins      map[types.NamespacedName]bool
	namespaces map[string]bool
	// free are names for a record under which the cache has none, by the one that they are besides.
	free map[string]string
	// namesakes are v1 Rancher clusters of the name of the CAPI cluster.
	namesakes []namesake
	// holders are the v3 Clusters that have a display name, reserved for how much longer another import has it.
	holders  map[string][]rancher.NamedCluster
	reserved map[string]time.Duration
	// managements are v3 Clusters by their names, nil if there is none.
	managements map[string]*managed
	// lease is what the Leases of Turtles say.
	lease turtles.Lease
	// unpermitted is why the infrastructure may not work with its principal.
	unpermitted error
	// principalNote is what people should know of a principal with which it may work.
	principalNote string
	// place: the namespace may have its Rancher cluster without a control plane.
	place bool
	// half: the agent may be installed but for its Deployment.
	half bool
	// elsewhere: another instance, which runs, works on the cluster.
	elsewhere bool
	// busy: work in the workload cluster has yet to end.
	busy bool
	// left is for how much longer a cluster that is gone is remembered.
	left time.Duration
	// disconnected is since when the agent is known to be disconnected.
	disconnected time.Time
	// terms are what an agent is installed with, and delay is for how much longer Rancher is left alone that has yet to
	// provide them.
	terms agentTerms
	delay time.Duration
	// level are Rancher clusters that were found to be what the CAPI cluster, as it was then, asks for.
	level map[client.Object]*clusterv1.Cluster
}

// deeds are what this run has done.
type deeds struct {
	// intent is set by the first decision.
	intent intent
	// forgotten: what was remembered is dropped; stopped: no work in the workload cluster is under way; redeployed:
	// Rancher was asked to deploy its agent again.
	forgotten, stopped, redeployed bool
	// claimed: the record's name was written ahead, which proves that the cached cluster was current.
	claimed bool
	// occupied: somebody else has the name under which the record was to be created.
	occupied bool
	// worked: it was seen to the work on the agent, which has ended, or not, with the result.
	worked, ended bool
	result        outcome.Outcome
	// refusals are the errors of a webhook that does not answer, by the identity of the record.
	refusals map[string]error
	// abandoned is a record; adopted: one of Turtles was taken over; removed: the deletion of one in Rancher
	// was noted; released: one that somebody else deletes was released.
	abandoned                  *record
	adopted, removed, released bool
}

// intent is what a run sets out to do.
type intent int

const (
	// intentUnknown is that of a run that has decided nothing yet.
	intentUnknown intent = iota
	// intentNothing is for a cluster that is not this instance's to look at, or not now.
	intentNothing
	// intentOrphans releases what a cluster has left behind that is gone.
	intentOrphans
	// intentLeave leaves a cluster to others, and sees to it that its record can go.
	intentLeave
	// intentPause does nothing: the cluster is paused.
	intentPause
	// intentDelete removes the record because the CAPI cluster goes.
	intentDelete
	// intentUnimport removes the record because the import label says so.
	intentUnimport
	// intentImport creates the record, or keeps it.
	intentImport
	// intentIdle leaves a cluster alone that is neither selected nor imported.
	intentIdle
)

// String returns the name of the intent as people read it.
func (i intent) String() string {
	return [...]string{
		"unknown", "nothing", "release orphans", "leave to others", "pause", "delete", "un-import", "import", "idle",
	}[i]
}

// managed is a v3 Cluster behind a record.
type managed struct {
	object *managementv3.Cluster
	// ahead: this process wrote it after the copy was made; renamed, synced, noted: this run did.
	ahead, renamed, synced, noted bool
}

// agentTerms are what an agent is installed with, as far as the caches of the management cluster tell.
type agentTerms struct {
	// registration, settings and server are what Rancher says, and the errors why it cannot be told.
	registration, settings                  string
	registrationErr, settingsErr, serverErr error
	server                                  *url.URL
	// current: the registration is filled in for the server.
	current    bool
	currentErr error
	// values are the settings of the agent.
	values    map[string]string
	valuesErr error
	// from is where the kubeconfig is, and the error why that cannot be told.
	from    kubeconfig.Source
	fromErr error
	// kubeconfig and token change with every write to these Secrets, and are empty without.
	kubeconfig, token string
	// tokened is when Rancher created the Secret with the token, zero without.
	tokened time.Time
}

// namesake is a v1 Rancher cluster that has the name of the CAPI cluster.
type namesake struct {
	record record
	// cached: it names a CAPI cluster as its owner, so the cache shows it.
	cached bool
	// left is when it is looked for again.
	left time.Duration
}

func newObservation(key types.NamespacedName) *Observation {
	return &Observation{key: key, answers: newAnswers(), deeds: deeds{refusals: map[string]error{}}}
}

func newAnswers() answers {
	return answers{
		answered: map[string]bool{}, current: map[string]*clusterv1.Cluster{}, live: map[string]*record{},
		twins: map[types.NamespacedName]bool{}, namespaces: map[string]bool{}, free: map[string]string{},
		holders: map[string][]rancher.NamedCluster{}, reserved: map[string]time.Duration{},
		managements: map[string]*managed{}, level: map[client.Object]*clusterv1.Cluster{},
	}
}

// assigned says who is to import the cluster.
func (o *Observation) assigned() assignment { return assignedTo(o.cluster.Annotations, o.assigning) }

// hasRecord reports whether a record was created for this very cluster and is not going.
func (o *Observation) hasRecord() bool { return o.standing() != nil }

// standing returns a record that was created for this very cluster and is not going.
func (o *Observation) standing() *record {
	for i := range o.records {
		if found := &o.records[i]; found.madeFor(o.cluster) && !found.deleting() {
			return found
		}
	}
	return nil
}

// learn adds one that the API server has of the cluster's own. Of one that the cache shows as well, only that
// it is being deleted is news.
func (o *Observation) learn(live record) {
	for _, records := range [][]record{o.records, o.derived} {
		for i := range records {
			if records[i].id() != live.id() {
				continue
			}
			if live.deleting() {
				records[i].Object = live.Object
			}
			return
		}
	}
	if live.strategy.Derived(live.Object) {
		o.derived = append(o.derived, live)
	} else {
		o.records = append(o.records, live)
	}
}

// find returns the record with the given identity.
func (o *Observation) find(id string) *record {
	for i := range o.records {
		if o.records[i].id() == id {
			return &o.records[i]
		}
	}
	return nil
}

// renew replaces what is known of a record.
func (o *Observation) renew(known record) {
	for _, records := range [][]record{o.records, o.derived} {
		for i := range records {
			if records[i].id() == known.id() {
				records[i] = known
			}
		}
	}
}

// once notes what is asked or done, and fails if that was so before.
func (o *Observation) once(step fmt.Stringer) outcome.Outcome {
	name := step.String()
	if o.answered[name] {
		err := fmt.Errorf("the API server accepted a write that did not take effect: %s. A mutating webhook or another controller may be reverting it", name)
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	}
	o.answered[name] = true
	return outcome.Done()
}
