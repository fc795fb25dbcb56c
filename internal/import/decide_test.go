package importer

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/docs"
	"github.com/archelon-io/archelon/internal/import/turtles"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
)

// decideV3 and decideV1 are strategies of which the rules can ask everything.
type decideV3 struct{ fullV3Strategy }

func (decideV3) Names(_ *clusterv1.Cluster, name string) bool { return strings.HasPrefix(name, "c-") }

func (s decideV3) Render(d Desired) *unstructured.Unstructured {
	object := s.fullV3Strategy.Render(d)
	object.SetName(d.Name)
	if d.Description != "" {
		object.Object["spec"] = map[string]any{"displayName": d.Cluster.Name, "description": d.Description}
	}
	return object
}

type decideV1 struct{ namingV1 }

func (decideV1) Names(_ *clusterv1.Cluster, name string) bool { return name == "prod-capi" }
func (decideV1) Render(d Desired) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetNamespace(d.Cluster.Namespace)
	object.SetName(d.Name)
	return object
}

var decideNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// inOneLine returns a decision in one line: its phase, and what it asks for, does, or how it ends.
func inOneLine(d Decision) string {
	var parts []string
	if d.Look != nil {
		parts = append(parts, "ask for "+d.Look.String())
	}
	for _, action := range d.Actions {
		parts = append(parts, action.String())
	}
	switch {
	case !d.Outcome.IsDone():
		parts = append(parts, d.Outcome.Kind.String()+" "+d.Outcome.Reason)
	case d.ends() && d.Outcome.After > 0:
		parts = append(parts, "done for "+d.Outcome.After.String())
	case d.ends():
		parts = append(parts, "done")
	}
	text := strings.Join(parts, "; ")
	if d.Phase != "" {
		text = d.Phase + ": " + text
	}
	return d.Intent.String() + " | " + text
}

// state builds what is known of the cluster of the tests.
type state func(*Observation, *Rules)

func labelledTrue(o *Observation, _ *Rules) {
	o.cluster.Labels = map[string]string{"cluster-api.cattle.io/rancher-auto-import": "true"}
}

func labelledFalse(o *Observation, _ *Rules) {
	o.cluster.Labels = map[string]string{"cluster-api.cattle.io/rancher-auto-import": "false"}
}
func up(o *Observation, _ *Rules) {
	o.cluster.Status.Initialization.ControlPlaneInitialized = new(true)
}
func claimedV3(o *Observation, _ *Rules) {
	held(o.cluster)
	annotated("archelon.io/instance", instance.ID{Name: "archelon"}.String())(o.cluster)
}
func note(key, value string) state {
	return func(o *Observation, _ *Rules) { annotated(key, value)(o.cluster) }
}

func asked(questions ...fmt.Stringer) state {
	return func(o *Observation, _ *Rules) {
		for _, q := range questions {
			o.answered[q.String()] = true
		}
	}
}

// shows is what the API server says of a v3 record that the cache shows: it is there, or gone.
func shows(name string, gone bool) state {
	return func(o *Observation, r *Rules) {
		strategy := Strategy(v3Strategy{})
		asked(askRecord{strategy: strategy, name: name})(o, r)
		o.live["v3/"+name] = nil
		if !gone {
			found := *o.find("v3/" + name)
			o.live["v3/"+name] = &found
		}
	}
}

// another makes of a v3 record a second one of the same CAPI Cluster.
func another(c *managementv3.Cluster) { c.Name = "c-other" }

// v3 adds the v3 record of the cluster, changed.
func v3(change ...func(*managementv3.Cluster)) state {
	return func(o *Observation, _ *Rules) {
		object := v3Record()
		object.Spec.DisplayName = o.cluster.Name
		for _, c := range change {
			c(object)
		}
		o.records = append(o.records, record{Object: object, strategy: decideV3{}, settled: true})
	}
}

func v1(change ...func(*provisioningv1.Cluster)) state {
	return func(o *Observation, _ *Rules) {
		object := v1Of()
		object.Finalizers = []string{finalizer}
		object.Status.ClusterName = "c-m-1"
		for _, c := range change {
			c(object)
		}
		o.records = append(o.records, record{Object: object, strategy: decideV1{}, settled: true})
	}
}
func goingV3(c *managementv3.Cluster) { c.DeletionTimestamp = new(metav1.NewTime(decideNow)) }
func of2(c *managementv3.Cluster)     { c.Labels["archelon.io/capi-cluster-uid"] = "uid-2" }
func unheld(c *managementv3.Cluster)  { c.Finalizers = nil }

// management adds the v3 Cluster of a name, with conditions that are True.
func management(name string, uid types.UID, trueConditions ...string) state {
	return func(o *Observation, _ *Rules) {
		cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: uid, CreationTimestamp: metav1.NewTime(decideNow),
			Annotations: map[string]string{"provisioning.cattle.io/administrated": "true"}, Labels: map[string]string{"archelon.io/capi-cluster-uid": "uid-1"},
		}}
		cluster.Spec.DisplayName = o.cluster.Name
		for _, kind := range trueConditions {
			condition := managementv3.ClusterCondition{Status: "True", LastUpdateTime: "2026-01-02T03:04:00Z"}
			condition.Type = managementv3.ClusterConditionType(kind)
			cluster.Status.Conditions = append(cluster.Status.Conditions, condition)
		}
		o.managements[name] = &managed{object: cluster, synced: true}
		o.answered[askManagement{name: name}.String()] = true
	}
}

// imported is a settled import, connected is one whose agent is.
func importedV3(trueConditions ...string) []state {
	return []state{labelledTrue, claimedV3, up, v3(), management("c-abcde", "record-1", trueConditions...)}
}

// namespaced has Rancher have made the namespace of its cluster some time ago.
func namespaced(ago time.Duration) state {
	return func(o *Observation, _ *Rules) {
		behind := o.managements["c-abcde"].object
		behind.Status.Conditions = append(behind.Status.Conditions, managementv3.ClusterCondition{
			Type: "BackingNamespaceCreated", Status: "True", LastUpdateTime: decideNow.Add(-ago).Format(time.RFC3339),
		})
	}
}

func holder(name, of string, cluster types.UID) state {
	return func(o *Observation, _ *Rules) {
		o.answered[askHolders{name}.String()] = true
		if of != "" {
			o.holders[name] = append(o.holders[name], rancher.NamedCluster{ObjectMeta: metav1.ObjectMeta{Name: of, UID: types.UID("uid-of-" + of)}, Owner: cluster})
		}
	}
}

// ofWest is one of several management clusters that one process imports from.
func ofWest(_ *Observation, r *Rules) { r.OriginName = "west" }

func renames(_ *Observation, r *Rules) { r.Active = renaming{} }

func selfHolds(o *Observation, r *Rules) {
	holder("prod", "c-abcde", "uid-1")(o, r)
	o.holders["prod"][0].UID = "record-1"
}

func knownTerms(change ...func(*agentTerms)) state {
	return func(o *Observation, _ *Rules) {
		o.answered[askTerms{"c-abcde"}.String()] = true
		o.terms = agentTerms{registration: "r", settings: "s", current: true}
		for _, c := range change {
			c(&o.terms)
		}
	}
}

func turtlesHolding(o *Observation, _ *Rules) {
	o.answered[askTurtles{}.String()] = true
	o.lease = turtles.Lease{Left: 10 * time.Second, By: "turtles-0"}
}

// manual is a Cluster whose agent is installed by other means.
func manual(o *Observation, r *Rules) {
	r.ManualDelivery = true
	annotated("archelon.io/agent-delivery", "manual")(o.cluster)
}

// redeployed: this run has asked Rancher to deploy its agent again.
func redeployed(o *Observation, _ *Rules) { o.redeployed = true }

// reportedLoss: the condition reports that an agent was lost which other means install.
func reportedLoss(o *Observation, _ *Rules) {
	conditions.Set(o.cluster, metav1.Condition{
		Type: "RancherImported", Status: "False", Reason: "AgentDisconnected",
		Message: docs.See(manualLost(o.cluster.Namespace+"/"+o.cluster.Name+"-rancher-agent"), docs.Reason("AgentDisconnected")),
	})
}

func always(_ *Observation, r *Rules) { r.Early = EarlyAlways }

func onRequest(_ *Observation, r *Rules) { r.Early = EarlyOnRequest }

func earlyNote(o *Observation, r *Rules) { note("archelon.io/early-import", "true")(o, r) }

// placed: there is a place for one more Rancher cluster without a control plane.
func placed(o *Observation, r *Rules) {
	asked(askEarlyPlace{})(o, r)
	o.place = true
}

// begunEarly: the agent may be installed but for its Deployment.
func begunEarly(o *Observation, r *Rules) {
	asked(askHalf{})(o, r)
	o.half = true
}

func down(o *Observation, _ *Rules) {
	conditions.Set(o.cluster, metav1.Condition{Type: clusterv1.ClusterControlPlaneAvailableCondition, Status: "False", Reason: "NotAvailable"})
}
func bySelector(_ *Observation, r *Rules) { r.Selector = Selector{namespaces: []string{"tenant"}} }
func switchToV1(_ *Observation, r *Rules) { r.Active, r.Others = decideV1{}, []Strategy{decideV3{}} }

func saying(status metav1.ConditionStatus, reason string) state {
	return func(o *Observation, _ *Rules) {
		conditions.Set(o.cluster, metav1.Condition{Type: "RancherImported", Status: status, Reason: reason})
	}
}

// decideRow is a branch of the rules: what is known, and what follows.
type decideRow struct {
	known []state
	want  string
}

// prepare returns what is known, and what decides on it.
func (row decideRow) prepare() (*Observation, func() Decision) {
	o := seen(testCluster())
	o.intent = intentUnknown
	o.answered[askPrincipal{}.String()] = true
	rules := Rules{Active: decideV3{}, Others: []Strategy{decideV1{}}, Self: instance.ID{Name: "archelon"}}
	o.cluster.Annotations = map[string]string{}
	for _, known := range row.known {
		known(o, &rules)
	}
	return o, func() Decision { return rules.Decide(*o, decideNow) }
}

// decideRows are all of them. The page about decisions is made of those that a sentence stands for.
func decideRows() map[string]decideRow {
	quiet := asked(askTurtles{}, askNamesakes{})
	newcomer := []state{labelledTrue, up, quiet}
	ahead := append(slices.Clone(newcomer), claimedV3)
	live := func(why string, change ...func(*clusterv1.Cluster)) state {
		return func(o *Observation, _ *Rules) {
			o.answered[askCluster{why}.String()] = true
			current := o.cluster.DeepCopy()
			for _, c := range change {
				c(current)
			}
			o.current[why] = current
		}
	}
	confirm := askCluster{"before its Rancher cluster is created"}
	confirmed := func(change ...func(*clusterv1.Cluster)) state { return live(confirm.why, change...) }
	confirmRelease, confirmUnimport := askCluster{"before its Rancher cluster is released"}, askCluster{"before its Rancher cluster is deleted"}
	unimported := func(change ...func(*clusterv1.Cluster)) state { return live(confirmRelease.why, change...) }
	unimportedStill := func(change ...func(*clusterv1.Cluster)) state { return live(confirmUnimport.why, change...) }
	// It has no label any more that tells whose it is.
	toEnd := func(o *Observation, _ *Rules) {
		o.records[0].ending = true
		o.records[0].SetFinalizers(nil)
		o.records[0].SetLabels(nil)
	}
	noNamespace := asked(askNamespace{"c-abcde"})
	with := func(states []state, more ...state) []state { return append(slices.Clone(states), more...) }
	occupant := askRecord{strategy: decideV3{}, name: "c-abcde", why: ", which has the name of the Rancher cluster"}
	second := askRecord{strategy: decideV3{}, name: "c-other", why: ", whose name may be free"}
	occupied := func(found *record) state {
		return func(o *Observation, _ *Rules) {
			o.answered[occupant.String()], o.occupied = true, true
			if found != nil {
				o.live[found.id()] = found
			}
		}
	}
	foreign := &record{Object: &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde"}}, strategy: decideV3{}, unseen: true}
	foreignGoing := &record{Object: &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", DeletionTimestamp: new(metav1.NewTime(decideNow))}}, strategy: decideV3{}, unseen: true}
	former := func(change func(*managementv3.Cluster)) *record {
		found := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
			Name: "c-abcde", DeletionTimestamp: new(metav1.NewTime(decideNow)), Finalizers: []string{"archelon.io/rancher-import"},
			Labels: map[string]string{
				"cluster-api.cattle.io/capi-cluster-owner": "prod", "cluster-api.cattle.io/capi-cluster-owner-ns": "tenant", "archelon.io/capi-cluster-uid": "former",
			},
		}}
		change(found)
		return &record{Object: found, strategy: decideV3{}, unseen: true}
	}
	formers := askCluster{"for Rancher clusters of another one"}
	free := func(besides, name string) state {
		return func(o *Observation, _ *Rules) {
			o.answered[askOwned{}.String()] = true // It comes before.
			o.answered[askFreeName{besides}.String()], o.free[besides] = true, name
		}
	}
	named := askRecord{strategy: decideV3{}, name: "c-abcde"}
	ending := func(o *Observation, _ *Rules) {
		o.cluster.DeletionTimestamp = new(metav1.NewTime(decideNow))
	}
	stopped := func(o *Observation, _ *Rules) { o.stopped = true }
	refused := func() state {
		return func(o *Observation, _ *Rules) {
			o.refusals["v3/c-abcde"] = apierrors.NewInternalError(errors.New("webhook"))
		}
	}
	later := func(o *Observation, _ *Rules) {
		o.cluster.DeletionTimestamp = new(metav1.NewTime(decideNow.Add(-time.Minute)))
	}
	gone := func(o *Observation, _ *Rules) { o.cluster = nil }
	theirs := func(_ *Observation, r *Rules) {
		r.Claim = instance.Claim{WatchFilter: "mine"}
	}
	selects := func(text string, namespace map[string]string) state {
		return func(o *Observation, r *Rules) {
			r.Claim.Selector, _ = labels.Parse(text)
			o.namespace = namespace
		}
	}
	relabelled := selects("team=blue", map[string]string{"team": "red"})
	unmarked := note("archelon.io/instance", "")
	forgotten := func(o *Observation, _ *Rules) { o.forgotten = true }
	twin := askTwin{client.ObjectKey{Namespace: "tenant", Name: "prod-capi"}}
	twinThere := func(o *Observation, _ *Rules) {
		o.answered[twin.String()], o.twins[twin.key] = true, true
	}
	withoutUID := func(o *Observation, _ *Rules) {
		delete(o.records[0].GetLabels(), "archelon.io/capi-cluster-uid")
		o.records[0].settled = false
	}
	unseen := func(o *Observation, _ *Rules) { o.records[0].unseen = true }
	theirFinalizer := func(o client.Object) { touched(o) }
	adopts := func(_ *Observation, r *Rules) { r.AdoptTurtles = true }
	turtlesV3 := v3(unheld, func(c *managementv3.Cluster) {
		theirFinalizer(c)
		delete(c.Labels, "archelon.io/capi-cluster-uid")
	})
	waitingAgent := importedV3()
	lost := with(importedV3("Waiting"), knownTerms())
	worked := func(ended bool, out outcome.Outcome) state {
		return func(o *Observation, _ *Rules) { o.worked, o.ended, o.result = true, ended, out }
	}
	return map[string]decideRow{
		// What is not this instance's to look at.
		"Outside":        {[]state{func(o *Observation, _ *Rules) { o.outside = true }}, "nothing | done"},
		"Withdrawn":      {[]state{func(o *Observation, _ *Rules) { o.withdrawn = true }}, "nothing | nothing: forget the cluster"},
		"WithdrawnLater": {[]state{forgotten, func(o *Observation, _ *Rules) { o.withdrawn = true }}, "nothing | nothing: done for 10s"},
		"Behind":         {[]state{func(o *Observation, _ *Rules) { o.behind = true }}, "nothing | nothing: done for 50ms"},
		"Paused":         {[]state{note("cluster.x-k8s.io/paused", "")}, "pause | pause: Wait Paused"},
		"Stranger":       {nil, "idle | done"},
		"StrangerInvalid": {[]state{func(o *Observation, _ *Rules) {
			o.namespace = map[string]string{"cluster-api.cattle.io/rancher-auto-import": "maybe"}
		}}, "idle | selection: Stall InvalidImportLabel"},
		"StrangerGoing": {[]state{v3(of2, goingV3)}, "idle | removal: ask for the CAPI cluster, for Rancher clusters of another one"},

		// What the installation selects.
		"Selected":      {[]state{bySelector, quiet}, "import | control-plane: Wait WaitingForControlPlane"},
		"SelectedElse":  {[]state{bySelector, func(o *Observation, _ *Rules) { o.cluster.Namespace = "other" }}, "idle | done"},
		"SelectedFalse": {[]state{bySelector, labelledFalse, claimedV3, stopped, v3(), unimported()}, "un-import | delete-rancher-clusters: v3 Rancher cluster c-abcde: release it before it is deleted"},
		"SelectedLost":  {importedV3("Connected")[1:], "import | done"},

		// What a cluster has left behind.
		"Gone":            {[]state{gone}, "release orphans | orphans: forget the cluster"},
		"GoneRecordStays": {[]state{gone, forgotten, func(o *Observation, r *Rules) { o.cluster = testCluster(); v3()(o, r); o.cluster = nil }}, "release orphans | orphans: ask for what is remembered of the cluster"},
		"GoneLost": {[]state{forgotten, v3(), gone, func(o *Observation, _ *Rules) { o.holding = "uid-1" }},
			"release orphans | orphans: ask for the CAPI cluster, for what it has left behind"},
		"GoneLostConfirmed": {[]state{forgotten, v3(), gone, asked(askCluster{"for what it has left behind"}), func(o *Observation, _ *Rules) { o.holding = "uid-1" }},
			"release orphans | orphans: v3 Rancher cluster c-abcde: release and delete it"},
		"GoneLostTwin": {[]state{forgotten, v1(), gone, asked(askCluster{"for what it has left behind"}), twinThere, func(o *Observation, _ *Rules) { o.holding = "uid-1" }},
			"release orphans | orphans: v1 Rancher cluster tenant/prod-capi: leave it to the administrator"},
		"GoneLostElsewhere": {[]state{forgotten, v3(), gone, asked(askCluster{"for what it has left behind"}), func(o *Observation, r *Rules) { o.holding, r.Origin = "uid-1", "site" }},
			"release orphans | orphans: v3 Rancher cluster c-abcde: keep it"},
		"GoneElsewhere": {[]state{forgotten, v3(goingV3), gone, asked(askCluster{"for what it has left behind"}), func(_ *Observation, r *Rules) { r.Origin = "site" }},
			"release orphans | orphans: v3 Rancher cluster c-abcde: release it"},
		"GoneDeleted": {[]state{forgotten, v3(goingV3), gone, asked(askCluster{"for what it has left behind"})}, "release orphans | orphans: v3 Rancher cluster c-abcde: release it"},
		"GoneBack": {[]state{forgotten, v3(goingV3), gone, asked(askCluster{"for what it has left behind"}), func(o *Observation, _ *Rules) {
			o.current["for what it has left behind"] = testCluster()
		}}, "release orphans | done"},
		"GoneForgotten": {[]state{forgotten, gone, asked(askHolding{}), func(o *Observation, _ *Rules) { o.left = 2 * time.Second }}, "release orphans | orphans: done for 2s"},

		// The cluster of others.
		"Theirs":         {[]state{theirs}, "leave to others | leave: forget the cluster"},
		"TheirsSettled":  {[]state{theirs, forgotten, claimedV3, v3()}, "leave to others | leave: done"},
		"TheirsRemoved":  {[]state{theirs, forgotten, claimedV3, v3(goingV3)}, "leave to others | leave: ask for other instances"},
		"TheirsRuns":     {[]state{theirs, forgotten, claimedV3, v3(goingV3), asked(askOthers{}), func(o *Observation, _ *Rules) { o.elsewhere = true }}, "leave to others | leave: done"},
		"TheirsNobody":   {[]state{theirs, forgotten, claimedV3, v3(goingV3), asked(askOthers{})}, "leave to others | removal: end the work in the workload cluster; CAPI cluster tenant/prod: note that its Rancher cluster was deleted in Rancher; v3 Rancher cluster c-abcde: release it"},
		"TheirsNoted":    {[]state{theirs, forgotten, stopped, note("imported", "true"), saying("True", "Imported"), asked(askOthers{})}, "leave to others | permission: Stall RemovedInRancher"},
		"Relabelled":     {[]state{relabelled, claimedV3, v3()}, "leave to others | let: forget the cluster"},
		"RelabelledStop": {[]state{relabelled, claimedV3, v3(), forgotten}, "leave to others | let: ask for the work in the workload cluster"},
		"RelabelledBusy": {[]state{relabelled, claimedV3, v3(), forgotten, asked(askJob{}), func(o *Observation, _ *Rules) { o.busy = true }}, "leave to others | let: done"},
		"RelabelledLets": {[]state{relabelled, claimedV3, v3(), forgotten, asked(askJob{})},
			"leave to others | let: CAPI cluster tenant/prod: leave it to the instance that selects its namespace"},
		"RelabelledLeft":    {[]state{relabelled, claimedV3, unmarked, v3(), forgotten}, "leave to others | leave: done"},
		"RelabelledUnknown": {[]state{selects("!team", nil), claimedV3, unmarked, v3(), forgotten}, "leave to others | leave: done"},
		"RelabelledEnds":    {[]state{relabelled, claimedV3, v3(), ending, stopped}, "delete | delete-rancher-clusters: v3 Rancher cluster c-abcde: release and delete it"},
		"Kept":              {[]state{selects("team=red", map[string]string{"team": "red"}), claimedV3, v3(), func(o *Observation, _ *Rules) { o.kept = true }}, "nothing | nothing: done"},
		"KeptLetGo": {[]state{selects("team=red", map[string]string{"team": "red"}), claimedV3, unmarked, v3()},
			"import | take-over: CAPI cluster tenant/prod: take it over from instance \"\""},
		"TheirsDeleting": {[]state{theirs, claimedV3, ending}, `delete | delete-rancher-clusters: end the work in the workload cluster`},

		// Deletion and un-import.
		"Delete":          {[]state{claimedV3, ending, stopped}, "delete | delete-rancher-clusters: ask for Rancher cluster v3/c-abcde"},
		"DeleteTakesOver": {[]state{claimedV3, ending, note("archelon.io/instance", "/old")}, `delete | take-over: CAPI cluster tenant/prod: take it over from instance "/old"`},
		"DeleteRecord":    {[]state{claimedV3, ending, stopped, v3()}, "delete | delete-rancher-clusters: v3 Rancher cluster c-abcde: release and delete it"},
		"DeleteStale":     {[]state{claimedV3, ending, stopped, v3(of2)}, "delete | delete-rancher-clusters: ask for Rancher clusters of the CAPI cluster"},
		"DeleteForeign":   {[]state{claimedV3, ending, stopped, v3(of2), asked(askOwned{})}, "delete | release-cluster: CAPI cluster tenant/prod: release it"},
		"DeleteGoing":     {[]state{claimedV3, ending, stopped, v3(goingV3, unheld)}, "delete | release-cluster: CAPI cluster tenant/prod: release it"},
		"DeleteReleased":  {[]state{ending, stopped}, "delete | done"},
		"DeleteWebhook":   {[]state{claimedV3, ending, stopped, v3(), refused()}, "delete | delete-rancher-clusters: Poll Deleting"},
		"DeleteNoWebhook": {[]state{claimedV3, later, stopped, v3(), refused()}, "delete | delete-rancher-clusters: v3 Rancher cluster c-abcde: delete it, and release it when that is possible"},
		"DeleteUnseen":    {[]state{claimedV3, later, stopped, v3(), unseen, refused()}, "delete | delete-rancher-clusters: Fail InternalError"},
		"DeleteHalfLabel": {[]state{claimedV3, later, stopped, v3(func(c *managementv3.Cluster) { delete(c.Labels, "cluster-api.cattle.io/capi-cluster-owner") }), refused()}, "delete | delete-rancher-clusters: Fail InternalError"},
		"DeleteV1":        {[]state{claimedV3, ending, stopped, asked(named), v1()}, "delete | delete-rancher-clusters: ask for CAPI cluster tenant/prod-capi"},
		"DeleteV1Twin":    {[]state{claimedV3, ending, stopped, asked(named), v1(), twinThere}, "delete | delete-rancher-clusters: v1 Rancher cluster tenant/prod-capi: leave it to the administrator"},
		"UnimportAsks":    {[]state{labelledFalse, claimedV3, stopped, v3()}, "un-import | delete-rancher-clusters: ask for the CAPI cluster, before its Rancher cluster is released"},
		"UnimportStale":   {[]state{labelledFalse, claimedV3, stopped, v3(), unimported(func(c *clusterv1.Cluster) { c.Labels = map[string]string{importLabel: "true"} })}, "un-import | delete-rancher-clusters: Poll InternalError"},
		"UnimportNewer":   {[]state{labelledFalse, claimedV3, stopped, v3(), unimported(func(c *clusterv1.Cluster) { c.UID = "uid-2" })}, "un-import | delete-rancher-clusters: Poll InternalError"},
		"UnimportGone":    {[]state{labelledFalse, claimedV3, stopped, v3(), asked(confirmRelease)}, "un-import | delete-rancher-clusters: Poll InternalError"},
		"UnimportDeleted": {[]state{labelledFalse, claimedV3, stopped, v3(), unimported(func(c *clusterv1.Cluster) {
			c.Labels, c.DeletionTimestamp = nil, &metav1.Time{Time: decideNow}
		})}, "un-import | delete-rancher-clusters: v3 Rancher cluster c-abcde: release it before it is deleted"},
		"Unimport":         {[]state{labelledFalse, claimedV3, stopped, v3(), unimported()}, "un-import | delete-rancher-clusters: v3 Rancher cluster c-abcde: release it before it is deleted"},
		"UnimportReleased": {[]state{labelledFalse, claimedV3, stopped, v3(), toEnd, unimported()}, "un-import | delete-rancher-clusters: ask for the CAPI cluster, before its Rancher cluster is deleted"},
		"UnimportEnds":     {[]state{labelledFalse, claimedV3, stopped, v3(), toEnd, unimported(), unimportedStill()}, "un-import | delete-rancher-clusters: v3 Rancher cluster c-abcde: release and delete it"},
		"UnimportRevoked": {[]state{labelledFalse, claimedV3, stopped, v3(), toEnd, unimported(), unimportedStill(func(c *clusterv1.Cluster) {
			c.Labels = map[string]string{importLabel: "true"}
		})}, "un-import | delete-rancher-clusters: Poll InternalError"},
		"UnimportV1Twin":    {[]state{labelledFalse, claimedV3, stopped, asked(named), v1(), twinThere, unimported()}, "un-import | delete-rancher-clusters: Stall RancherClusterNameTaken"},
		"UnimportedAlready": {[]state{labelledFalse}, "idle | done"},

		// Rancher Turtles.
		"Assigned":          {[]state{labelledTrue, up, note("archelon.io/managed-by", "rancher-turtles")}, "import | turtles: Stall AssignedToTurtles"},
		"AssignedImported":  {append(importedV3("Connected"), note("archelon.io/managed-by", "rancher-turtles")), "import | done"},
		"Turtles":           {[]state{labelledTrue, up}, "import | turtles: ask for the Lease of Rancher Turtles"},
		"TurtlesRuns":       {[]state{labelledTrue, up, turtlesHolding}, "import | turtles: Poll TurtlesActive"},
		"TurtlesMistake":    {[]state{labelledTrue, note("archelon.io/managed-by", "me")}, "import | turtles: Stall InvalidSetting"},
		"TurtlesAdopt":      {[]state{labelledTrue, up, adopts, quiet, turtlesV3}, "import | adopt: CAPI cluster tenant/prod: claim v3/c-abcde of Rancher Turtles; v3 Rancher cluster c-abcde: adopt it"},
		"TurtlesAdoptTwice": {[]state{labelledTrue, up, adopts, quiet, turtlesV3, turtlesV3}, "import | adopt: Stall DuplicateRancherClusters"},
		"TurtlesAdoptKind":  {[]state{labelledTrue, up, adopts, quiet, turtlesV3, switchToV1}, "import | adopt: CAPI cluster tenant/prod: claim v3/c-abcde of Rancher Turtles; v3 Rancher cluster c-abcde: adopt it"},
		"TurtlesTakeBack": {append(importedV3("Connected"), adopts, quiet, func(o *Observation, _ *Rules) { theirFinalizer(o.records[0].Object) }),
			"import | adopt: v3 Rancher cluster c-abcde: take the finalizer of Rancher Turtles off"},
		"TurtlesBack":    {append(importedV3("Connected"), adopts, turtlesHolding, func(o *Observation, _ *Rules) { theirFinalizer(o.cluster) }), "import | adopt: Poll ManagedByTurtles"},
		"TurtlesTouched": {append(importedV3("Connected"), func(o *Observation, _ *Rules) { theirFinalizer(o.cluster) }), "import | neighbours: Stall ManagedByTurtles"},

		// Before an import.
		"TakesOver": {append(importedV3("Connected"), note("archelon.io/instance", "/old")),
			`import | take-over: CAPI cluster tenant/prod: take it over from instance "/old"`},
		"Invalid": {append(importedV3("Connected"), func(o *Observation, _ *Rules) {
			o.cluster.Labels["cluster-api.cattle.io/rancher-auto-import"] = "maybe"
		}), "import | selection: Stall InvalidImportLabel"},
		"Blocked":       {[]state{labelledTrue, note("imported", "true")}, "import | permission: end the work in the workload cluster"},
		"BlockedStops":  {[]state{labelledTrue, stopped, note("imported", "true")}, "import | permission: Stall RemovedInRancher"},
		"BlockedPrefix": {[]state{labelledTrue, stopped, note("archelon.io/imported", "true")}, "import | permission: Stall RemovedInRancher"},
		"BlockedNot":    {[]state{labelledTrue, quiet, note("imported", "true"), note("archelon.io/imported", "false")}, "import | control-plane: Wait WaitingForControlPlane"},
		"BlockedMaybe":  {[]state{labelledTrue, stopped, note("archelon.io/imported", "maybe")}, "import | permission: Stall InvalidSetting"},
		"BlockedLater":  {append(importedV3("Connected"), note("archelon.io/imported", "true")), "import | done"},
		"BlockedHidden": {[]state{labelledTrue, claimedV3, note("imported", "true")}, "import | permission: ask for Rancher cluster v3/c-abcde"},
		"Removed":       {[]state{labelledTrue, claimedV3, v3(goingV3)}, "import | removal: end the work in the workload cluster; CAPI cluster tenant/prod: note that its Rancher cluster was deleted in Rancher; v3 Rancher cluster c-abcde: release it"},
		"RemovedNoted":  {[]state{labelledTrue, note("imported", "true"), v3(goingV3), asked(askCluster{"for the name of its Rancher cluster"})}, "import | removal: v3 Rancher cluster c-abcde: release it"},
		"RemovedBehind": {[]state{labelledTrue, note("imported", "true"), v3(goingV3), asked(askCluster{"for the name of its Rancher cluster"}), func(o *Observation, _ *Rules) {
			o.current["for the name of its Rancher cluster"] = namedCluster("v3/c-abcde")
		}}, "import | permission: end the work in the workload cluster"},
		"RemovedOne": {[]state{labelledTrue, claimedV3, v3(goingV3), v3(another), shows("c-other", false)},
			"import | removal: end the work in the workload cluster; CAPI cluster tenant/prod: follow its other Rancher cluster; v3 Rancher cluster c-abcde: release it"},
		"RemovedOneLate": {[]state{labelledTrue, claimedV3, v3(goingV3), v3(another), shows("c-other", true)},
			"import | removal: end the work in the workload cluster; CAPI cluster tenant/prod: note that its Rancher cluster was deleted in Rancher; v3 Rancher cluster c-abcde: release it"},
		"RemovedOther": {[]state{labelledTrue, claimedV3, v3(), v3(goingV3, another)}, "import | removal: ask for Rancher cluster v3/c-abcde"},
		"RemovedSpare": {[]state{labelledTrue, claimedV3, v3(), v3(goingV3, another), shows("c-abcde", false)}, "import | removal: v3 Rancher cluster c-other: release it"},
		"RemovedBoth": {[]state{labelledTrue, claimedV3, v3(), v3(goingV3, another), shows("c-abcde", true)},
			"import | removal: end the work in the workload cluster; CAPI cluster tenant/prod: note that its Rancher cluster was deleted in Rancher; v3 Rancher cluster c-other: release it"},
		"RemovedAhead": {[]state{labelledTrue, claimedV3, v3(goingV3, func(c *managementv3.Cluster) { c.Name = "c-other" })}, "import | removal: ask for Rancher cluster v3/c-abcde"},
		"Principal":    {[]state{labelledTrue, up, quiet, func(o *Observation, _ *Rules) { delete(o.answered, askPrincipal{}.String()) }}, "import | principal: ask for the principal of the infrastructure"},
		"PrincipalNo": {[]state{labelledTrue, up, quiet, func(o *Observation, _ *Rules) {
			o.unpermitted = &outcome.Problem{Kind: outcome.KindStall, Reason: "SecretNamespaceForbidden"}
		}}, "import | principal: Stall SecretNamespaceForbidden"},
		"NoControlPlane": {[]state{labelledTrue, quiet}, "import | control-plane: Wait WaitingForControlPlane"},
		"Early":          {[]state{labelledTrue, quiet, onRequest, earlyNote, placed}, `import | claim: ask for a free name besides ""`},
		"EarlyAsk":       {[]state{labelledTrue, quiet, onRequest, earlyNote}, "import | control-plane: ask for a place for a Rancher cluster without a control plane"},
		"EarlyFull":      {[]state{labelledTrue, quiet, onRequest, earlyNote, asked(askEarlyPlace{})}, "import | control-plane: Wait WaitingForControlPlane"},
		"EarlyUp":        {[]state{labelledTrue, up, quiet, onRequest, earlyNote}, `import | claim: ask for a free name besides ""`},
		"EarlyRefused":   {[]state{labelledTrue, quiet, earlyNote}, "import | control-plane: Wait WaitingForControlPlane"},
		"EarlyUnasked":   {[]state{labelledTrue, quiet, onRequest}, "import | control-plane: Wait WaitingForControlPlane"},
		"EarlyAll":       {[]state{labelledTrue, quiet, always, placed}, `import | claim: ask for a free name besides ""`},
		"EarlyNot":       {[]state{labelledTrue, quiet, always, note("archelon.io/early-import", "false")}, "import | control-plane: Wait WaitingForControlPlane"},
		"EarlyMaybe":     {[]state{labelledTrue, quiet, note("archelon.io/early-import", "maybe")}, "import | control-plane: Stall InvalidSetting"},
		"Namesake":       {[]state{labelledTrue, up, asked(askTurtles{})}, "import | namesake: ask for Rancher clusters of the cluster's name"},
		"NamesakeOther":  {with(newcomer, func(o *Observation, _ *Rules) { o.namesakes = []namesake{{record: *foreign, cached: true}} }), "import | namesake: Stall RancherClusterNameTaken"},
		"NamesakeHidden": {with(newcomer, func(o *Observation, _ *Rules) { o.namesakes = []namesake{{record: *foreign, left: time.Minute}} }), "import | namesake: Poll RancherClusterNameTaken"},

		// The name of the record.
		"Name":           {newcomer, `import | claim: ask for a free name besides ""`},
		"NameHolders":    {with(newcomer, free("", "c-new22")), "import | claim: ask for the display name prod"},
		"NameHeld":       {with(newcomer, free("", "c-new22"), holder("prod", "c-x", "")), "import | claim: Stall DisplayNameTaken"},
		"NameReserve":    {with(newcomer, free("", "c-new22"), holder("prod", "", "")), `import | claim: reserve the display name "prod"`},
		"NameApart":      {with(newcomer, free("", "c-new22"), holder("prod", "c-x", ""), ofWest, renames), "import | claim: ask for the display name prod-west"},
		"NameApartFree":  {with(newcomer, free("", "c-new22"), holder("prod", "c-x", ""), holder("prod-west", "", ""), ofWest, renames), `import | claim: reserve the display name "prod-west"`},
		"NameApartHeld":  {with(newcomer, free("", "c-new22"), holder("prod", "c-x", ""), holder("prod-west", "c-y", ""), ofWest, renames), "import | claim: Stall DisplayNameTaken"},
		"NameApartNot":   {with(newcomer, free("", "c-new22"), holder("prod", "", ""), ofWest, renames), `import | claim: reserve the display name "prod"`},
		"NameApartAsked": {with(newcomer, free("", "c-new22"), note("archelon.io/display-name", "blue"), holder("blue", "c-x", ""), ofWest, renames), "import | claim: Stall DisplayNameTaken"},
		"NameReserved":   {with(newcomer, free("", "c-new22"), holder("prod", "", ""), asked(reserveName{"prod"}), func(o *Observation, _ *Rules) { o.reserved["prod"] = time.Second }), "import | claim: Poll DisplayNameTaken"},
		"NameAhead":      {with(newcomer, free("", "c-new22"), holder("prod", "", ""), asked(reserveName{"prod"})), "import | claim: CAPI cluster tenant/prod: write ahead the name of its Rancher cluster, v3/c-new22"},
		"NameInvalid":    {with(newcomer, free("", "c-new22"), note("archelon.io/display-name", "Not A Name")), "import | claim: Stall InvalidSetting"},
		"NameOfOwn":      {with(newcomer, v3()), "import | claim: CAPI cluster tenant/prod: write ahead the name of its Rancher cluster, v3/c-abcde"},
		"NameWaits":      {with(newcomer, v3(goingV3, unheld)), "import | claim: Wait RancherClusterTerminating"},
		"NameWaitsBlind": {with(newcomer, v3(goingV3, unheld), func(o *Observation, _ *Rules) { o.records[0].unseen = true }), "import | claim: Poll RancherClusterTerminating"},
		"NameForged":     {with(ahead, note(recordKey, "v3/victim")), "import | claim: ask for Rancher cluster v3/victim"},
		"NameForgedTwo":  {with(ahead, note(recordKey, "v3/victim"), asked(askRecord{strategy: decideV3{}, name: "victim"}, askOwned{})), `import | claim: ask for a free name besides ""`},
		"NameForgedMore": {with(ahead, note(recordKey, "v3/victim"), asked(askRecord{strategy: decideV3{}, name: "victim"})), "import | claim: ask for Rancher clusters of the CAPI cluster"},
		"NameEdited":     {with(ahead, note(recordKey, "v3/c-other"), v3()), "import | claim: ask for Rancher cluster v3/c-abcde, which the cluster does not name"},

		// The record.
		"Record":           {ahead, "import | rancher-cluster: ask for the CAPI cluster, before its Rancher cluster is created"},
		"RecordGone":       {with(ahead, asked(confirm)), "import | rancher-cluster: Fail InternalError"},
		"RecordChanged":    {with(ahead, confirmed(annotated("imported", "true"))), "import | rancher-cluster: Poll InternalError"},
		"RecordNamespace":  {with(ahead, confirmed()), "import | rancher-cluster: ask for namespace c-abcde"},
		"RecordName":       {with(ahead, confirmed(), noNamespace), "import | rancher-cluster: ask for the display name prod"},
		"RecordCreate":     {with(ahead, confirmed(), noNamespace, holder("prod", "", ""), asked(reserveName{"prod"})), "import | rancher-cluster: v3 Rancher cluster c-abcde: create it"},
		"RecordClaimed":    {with(ahead, func(o *Observation, _ *Rules) { o.claimed, o.free[""] = true, "c-abcde" }), "import | rancher-cluster: v3 Rancher cluster c-abcde: create it"},
		"RecordAwaited":    {with(ahead, func(o *Observation, _ *Rules) { o.creation = creation{"v3/c-abcde", decideNow} }), "import | rancher-cluster: Poll WaitingForRancher"},
		"RecordOccupied":   {with(ahead, func(o *Observation, _ *Rules) { o.occupied = true }), "import | rancher-cluster: ask for " + occupant.String()},
		"RecordVanished":   {with(ahead, occupied(nil)), "import | rancher-cluster: Fail InternalError"},
		"RecordOfOthers":   {with(ahead, occupied(foreign), asked(askOwned{})), `import | rancher-cluster: ask for a free name besides "c-abcde"`},
		"RecordOthersMore": {with(ahead, occupied(foreign)), "import | rancher-cluster: ask for Rancher clusters of the CAPI cluster"},
		"RecordOthersGo":   {with(ahead, occupied(foreignGoing)), "import | rancher-cluster: Poll RancherClusterTerminating"},
		"RecordFormerGoes": {with(ahead, occupied(former(func(*managementv3.Cluster) {}))), "import | rancher-cluster: ask for the CAPI cluster, for Rancher clusters of another one"},
		"RecordFormerHeld": {with(ahead, occupied(former(func(*managementv3.Cluster) {})), live(formers.why)), "import | rancher-cluster: v3 Rancher cluster c-abcde: release it"},
		"RecordFormerFree": {with(ahead, occupied(former(func(c *managementv3.Cluster) { c.Finalizers = nil })), live(formers.why)), "import | rancher-cluster: Poll RancherClusterTerminating"},
		"RecordNeighbours": {with(ahead, occupied(former(func(c *managementv3.Cluster) { c.Labels["cluster-api.cattle.io/capi-cluster-owner"] = "test" })), live(formers.why)), "import | rancher-cluster: Poll RancherClusterTerminating"},
		"RecordNamesakes":  {with(ahead, occupied(former(func(c *managementv3.Cluster) { c.Labels["archelon.io/management-cluster"] = "other" })), live(formers.why)), "import | rancher-cluster: Poll RancherClusterTerminating"},
		"RecordNoName":     {with(ahead, occupied(foreign), free("c-abcde", "c-abcde")), "import | rancher-cluster: Poll ForeignRancherCluster"},
		"RecordSecond":     {with(ahead, occupied(foreign), free("c-abcde", "c-other")), "import | rancher-cluster: ask for " + second.String()},
		"RecordRename":     {with(ahead, occupied(foreign), free("c-abcde", "c-other"), asked(second)), "import | rancher-cluster: CAPI cluster tenant/prod: write ahead the name of its Rancher cluster, v3/c-other; Poll WaitingForRancher"},
		"RecordTakesSpace": {with(ahead, confirmed(), noNamespace, func(o *Observation, _ *Rules) { o.namespaces["c-abcde"] = true }), "import | rancher-cluster: ask for Rancher cluster v3/c-abcde, which may have the namespace"},

		// Another kind.
		"KindStays":    {append(importedV3("Connected"), switchToV1), "import | done"},
		"KindLost":     {append(importedV3("Waiting"), switchToV1, quiet), "import | agent: ask for the registration of v3 Rancher cluster c-abcde"},
		"KindNames":    {append(importedV3("Connected"), switchToV1, quiet, asked(askOwned{}, askRecord{strategy: decideV1{}, name: "prod-capi"}), note(recordKey, "v1/prod-capi")), "import | claim: CAPI cluster tenant/prod: write ahead the name of its Rancher cluster, v3/c-abcde"},
		"KindHidden":   {[]state{labelledTrue, claimedV3, up, switchToV1, quiet}, "import | kind: ask for Rancher cluster v3/c-abcde"},
		"KindNotThere": {[]state{labelledTrue, claimedV3, up, switchToV1, quiet, asked(named), free("", "prod-capi")}, "import | claim: CAPI cluster tenant/prod: write ahead the name of its Rancher cluster, v1/prod-capi"},
		"KindMayBeOwn": {[]state{labelledTrue, claimedV3, up, switchToV1, quiet, asked(named)}, "import | claim: ask for Rancher clusters of the CAPI cluster"},
		"KindLabels":   {append(importedV3("Connected"), switchToV1, quiet, withoutUID), "import | sync: v3 Rancher cluster c-abcde: update it"},
		"KindUnseen":   {append(importedV3("Connected"), switchToV1, quiet, withoutUID, unseen), "import | sync: v3 Rancher cluster c-abcde: update it"},
		"KindTwice":    {append(importedV3("Connected"), switchToV1, quiet, v1()), "import | neighbours: Stall DuplicateRancherClusters"},
		"KindGoes": {append(importedV3("Connected"), switchToV1, quiet, asked(askOwned{}), func(o *Observation, _ *Rules) {
			o.records[0].SetDeletionTimestamp(new(metav1.NewTime(decideNow)))
			o.records[0].SetFinalizers(nil)
		}), "import | claim: Wait RancherClusterTerminating"},
		"KindCompanion": {[]state{labelledTrue, claimedV3, up, quiet, func(o *Observation, r *Rules) { v3(goingV3, unheld)(o, r); o.derived, o.records = o.records, nil }}, "import | removal: ask for Rancher cluster v3/c-abcde"},

		// What is imported.
		"Settled":        {importedV3("Connected"), "import | done"},
		"Sync":           {append(importedV3("Connected"), func(o *Observation, _ *Rules) { o.records[0].settled = false }), "import | sync: v3 Rancher cluster c-abcde: update it"},
		"SyncHolds":      {append(importedV3("Connected"), func(o *Observation, _ *Rules) { o.records[0].settled = false; o.records[0].SetFinalizers(nil) }), "import | sync: v3 Rancher cluster c-abcde: hold it"},
		"SyncLater":      {append(importedV3("Connected"), func(o *Observation, _ *Rules) { o.records[0].settled, o.records[0].ahead = false, true }), "import | done"},
		"NoManagement":   {[]state{labelledTrue, claimedV3, up, v3()}, "import | management: ask for v3 Rancher cluster c-abcde"},
		"NotYet":         {[]state{labelledTrue, claimedV3, up, v3(), asked(askManagement{name: "c-abcde"})}, "import | management: Wait WaitingForRancher"},
		"ManagementGoes": {append(importedV3("Connected"), func(o *Observation, _ *Rules) { goingV3(o.managements["c-abcde"].object) }), "import | management: Wait RancherClusterTerminating"},
		"V1NoManagement": {[]state{labelledTrue, up, claimedV3, note(recordKey, "v1/prod-capi"), switchToV1, v1(func(c *provisioningv1.Cluster) { c.Status.ClusterName = "" })}, "import | management: Wait WaitingForRancher"},
		"V1Foreign":      {[]state{labelledTrue, up, claimedV3, note(recordKey, "v1/prod-capi"), switchToV1, v1(func(c *provisioningv1.Cluster) { c.Status.ClusterName = "prod-capi" }), management("prod-capi", "m")}, "import | management: Poll ForeignRancherCluster"},
		"V1Behind":       {[]state{labelledTrue, up, claimedV3, note(recordKey, "v1/prod-capi"), switchToV1, v1(), management("c-m-1", "m", "Connected"), func(o *Observation, _ *Rules) { o.managements["c-m-1"].synced = false }}, "import | sync-management: v3 Rancher cluster c-m-1: update it"},
		"Rename":         {append(importedV3("Connected"), note("archelon.io/display-name", "blue"), func(o *Observation, r *Rules) { r.Active = renaming{}; o.records[0].strategy = renaming{} }), "import | display-name: ask for the display name blue"},
		"RenameFree":     {append(importedV3("Connected"), note("archelon.io/display-name", "blue"), holder("blue", "", ""), asked(reserveName{"blue"}), func(o *Observation, r *Rules) { r.Active = renaming{}; o.records[0].strategy = renaming{} }), `import | display-name: v3 Rancher cluster c-abcde: give it the display name "blue"`},
		"RenameTaken":    {append(importedV3("Connected"), note("archelon.io/display-name", "blue"), holder("blue", "c-x", ""), func(o *Observation, r *Rules) { r.Active = renaming{}; o.records[0].strategy = renaming{} }), "import | display-name: Stall DisplayNameTaken"},
		"NameNotSeen":    {append(waitingAgent, asked(askHolders{"prod"})), "import | display-name: Wait WaitingForRancher"},
		"NameOlder": {append(waitingAgent, holder("prod", "c-older", ""), func(o *Observation, r *Rules) {
			selfHolds(o, r)
			o.holders["prod"] = append(o.holders["prod"], rancher.NamedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", UID: "record-1"}, Owner: "uid-1"})
			o.holders["prod"][0].UID = "older"
		}), "import | display-name: Stall DisplayNameTaken"},
		"NameOlderApart": {append(waitingAgent, ofWest, holder("prod", "c-older", ""), func(o *Observation, r *Rules) {
			selfHolds(o, r)
			o.holders["prod"] = append(o.holders["prod"], rancher.NamedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", UID: "record-1"}, Owner: "uid-1"})
			o.holders["prod"][0].UID = "older"
		}), `import | display-name: v3 Rancher cluster c-abcde: give it the display name "prod-west"`},
		"NameStaysApart": {append(importedV3("Connected"), ofWest, func(o *Observation, r *Rules) {
			r.Active, o.records[0].strategy = renaming{}, renaming{}
			o.managements["c-abcde"].object.Spec.DisplayName = "prod-west"
		}), "import | done"},
		"AgentEarly":         {[]state{labelledTrue, claimedV3, v3(), management("c-abcde", "record-1"), selfHolds}, "import | early: Wait WaitingForControlPlane"},
		"AgentDown":          {append(waitingAgent, selfHolds, down), "import | agent: ask for the registration of v3 Rancher cluster c-abcde"},
		"AgentOffDown":       {append(importedV3("Waiting")[:2:2], v3(), management("c-abcde", "record-1", "Waiting")), "import | agent: ask for the registration of v3 Rancher cluster c-abcde"},
		"AgentTerms":         {append(waitingAgent, selfHolds), "import | agent: ask for the registration of v3 Rancher cluster c-abcde"},
		"AgentWork":          {append(waitingAgent, selfHolds, knownTerms()), "import | agent: look at the agent of v3 Rancher cluster c-abcde in the workload cluster, and install it if it cannot connect"},
		"AgentSoon":          {append(waitingAgent, selfHolds, knownTerms(), namespaced(time.Second)), "import | agent: ask for whether the agent may be installed but for its Deployment"},
		"AgentSooner":        {append(waitingAgent, selfHolds, knownTerms(), func(o *Observation, _ *Rules) { o.terms.tokened = decideNow.Add(-time.Second) }), "import | agent: ask for whether the agent may be installed but for its Deployment"},
		"AgentHalves":        {append(waitingAgent, selfHolds, knownTerms(), namespaced(time.Second), asked(askHalf{})), "import | agent: Poll WaitingForRancher"},
		"AgentHalf":          {append(waitingAgent, selfHolds, knownTerms(), namespaced(time.Second), begunEarly), "import | agent: look at the agent of v3 Rancher cluster c-abcde in the workload cluster, and install it if it cannot connect"},
		"AgentHalfRuns":      {append(waitingAgent, selfHolds, knownTerms(), namespaced(time.Second), begunEarly, worked(false, outcome.Done())), "import | agent: Poll WaitingForRancher"},
		"AgentHalfFails":     {append(waitingAgent, selfHolds, knownTerms(), namespaced(time.Second), begunEarly, worked(true, outcome.Fail("WorkloadUnreachable", errors.New("no")))), "import | agent: Poll WorkloadUnreachable"},
		"AgentHalfManual":    {append(waitingAgent, selfHolds, knownTerms(), namespaced(time.Second), manual), "import | agent: Poll WaitingForRancher"},
		"AgentReady":         {append(importedV3("ServiceAccountSecretsMigrated"), selfHolds, knownTerms(), namespaced(time.Second)), "import | agent: look at the agent of v3 Rancher cluster c-abcde in the workload cluster, and install it if it cannot connect"},
		"AgentOther":         {append(waitingAgent, selfHolds, knownTerms(), namespaced(time.Minute)), "import | agent: look at the agent of v3 Rancher cluster c-abcde in the workload cluster, and install it if it cannot connect"},
		"AgentAhead":         {append(waitingAgent, selfHolds, knownTerms(), namespaced(-2*time.Second), asked(askHalf{})), "import | agent: Poll WaitingForRancher"},
		"AgentClock":         {append(waitingAgent, selfHolds, knownTerms(), namespaced(-time.Hour)), "import | agent: look at the agent of v3 Rancher cluster c-abcde in the workload cluster, and install it if it cannot connect"},
		"AgentKnown":         {append(importedV3("Waiting"), selfHolds, knownTerms(), namespaced(time.Second)), "import | agent: look at the agent of v3 Rancher cluster c-abcde in the workload cluster, and install it if it cannot connect"},
		"AgentRuns":          {append(waitingAgent, selfHolds, knownTerms(), worked(false, outcome.Done())), "import | agent: Wait ConnectingAgent"},
		"AgentInstalled":     {append(waitingAgent, selfHolds, knownTerms(), worked(true, outcome.DoneFor(time.Second))), "import | agent: Poll WaitingForAgent"},
		"AgentFailed":        {append(waitingAgent, selfHolds, knownTerms(), worked(true, outcome.Fail("WorkloadUnreachable", errors.New("no")))), "import | agent: Poll WorkloadUnreachable"},
		"AgentStalled":       {append(waitingAgent, selfHolds, knownTerms(), worked(true, outcome.Stall("ManagementCluster", "m"))), "import | agent: Stall ManagementCluster"},
		"AgentManual":        {append(waitingAgent, selfHolds, knownTerms(), manual, asked(askJob{})), "import | agent: Wait WaitingForAgent"},
		"AgentManualEarly":   {[]state{labelledTrue, claimedV3, v3(), management("c-abcde", "record-1"), selfHolds, knownTerms(), manual, asked(askJob{})}, "import | agent: Wait WaitingForAgent"},
		"AgentManualBusy":    {append(waitingAgent, selfHolds, knownTerms(), manual, asked(askJob{}), func(o *Observation, _ *Rules) { o.busy = true }), "import | agent: end the work in the workload cluster"},
		"AgentManualLost":    {with(importedV3("Waiting", "AgentDeployed"), knownTerms(), manual, asked(askJob{})), "import | agent: ask Rancher to deploy the agent of v3 Rancher cluster c-abcde again"},
		"AgentManualAsked":   {with(importedV3("Waiting", "AgentDeployed"), knownTerms(), manual, asked(askJob{}), redeployed), "import | agent: Wait AgentDisconnected"},
		"AgentManualTold":    {with(importedV3("Waiting", "AgentDeployed"), knownTerms(), manual, asked(askJob{}), reportedLoss), "import | agent: Wait AgentDisconnected"},
		"AgentManualNever":   {with(lost, manual, asked(askJob{})), "import | agent: Wait AgentDisconnected"},
		"AgentManualRefused": {append(waitingAgent, selfHolds, knownTerms(), manual, func(_ *Observation, r *Rules) { r.ManualDelivery = false }), "import | agent: Stall InvalidSetting"},
		"AgentLost":          {lost, "import | agent: look at the agent of v3 Rancher cluster c-abcde in the workload cluster, and install it if it cannot connect"},
		"AgentLostRuns":      {with(lost, worked(false, outcome.Done())), "import | agent: Wait AgentDisconnected"},
		"AgentLostDone":      {with(lost, worked(true, outcome.DoneFor(time.Second))), "import | agent: Poll AgentDisconnected"},
		"AgentGone":          {append(importedV3("Connected"), func(o *Observation, _ *Rules) { o.agentGone = true }), "import | agent: ask for the registration of v3 Rancher cluster c-abcde"},
		"AgentGrace":         {append(importedV3("Waiting"), saying("True", "Imported"), func(_ *Observation, r *Rules) { r.DisconnectGrace = time.Minute }), "import | agent: ask for since when the agent is disconnected"},
		"AgentInGrace": {append(importedV3("Waiting"), saying("True", "Imported"), asked(askDisconnection{}), func(o *Observation, r *Rules) {
			r.DisconnectGrace, o.disconnected = time.Minute, decideNow.Add(-20*time.Second)
		}), "import | done for 40s"},
		"AgentTaken": {append(importedV3("Connected"), note("archelon.io/take-over-agent", "c-x")), "import | agent: v3 Rancher cluster c-abcde: note whether its agent was taken over"},
		"NoRegistration": {append(waitingAgent, selfHolds, knownTerms(func(a *agentTerms) {
			a.registrationErr, a.serverErr = &outcome.Problem{Kind: outcome.KindWait, Reason: "WaitingForRancher"}, &outcome.Problem{Kind: outcome.KindWait, Reason: "ServerURLMissing"}
		})), "import | agent: Wait ServerURLMissing"},
		"RegistrationBad": {append(waitingAgent, selfHolds, knownTerms(func(a *agentTerms) { a.registrationErr = errors.New("broken") })), "import | agent: Fail InternalError"},
	}
}

func TestDecide(t *testing.T) {
	rows := decideRows()
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t.Run(name, func(t *testing.T) {
			o, decide := rows[name].prepare()
			before := copies(o)
			if got := inOneLine(decide()); got != rows[name].want {
				t.Errorf("got  %s\nwant %s", got, rows[name].want)
			}
			if diff := cmp.Diff(before, copies(o)); diff != "" {
				t.Errorf("the decision has changed what is known (-before +after)\n%s", diff)
			}
		})
	}
}

// Of all rules that pass for the time being, the one counts that wants to look again the soonest.
func TestTheSoonestLookCounts(t *testing.T) {
	var rules []rule
	for _, after := range []time.Duration{3, 1, 2, 0} {
		rules = append(rules, rule{"one", func(*deciding) Decision { return Decision{Outcome: outcome.DoneFor(after)} }})
	}
	if d := (&deciding{Observation: &Observation{}}).by(rules); d.Outcome.After != 1 {
		t.Errorf("got %s, want 1ns", d.Outcome.After)
	}
}

// A description that its owner takes back becomes the usual one, and one that somebody gave in Rancher is left alone.
func TestADescriptionThatIsTakenBack(t *testing.T) {
	given := map[string]string{"archelon.io/propagated-settings": "cluster-api.cattle.io/cluster-description"}
	for name, tc := range map[string]struct {
		annotations map[string]string
		asked       string
		want        string
	}{
		"TakenBack": {annotations: given, want: `"description":"CAPI cluster imported to Rancher"`},
		"Changed":   {annotations: given, asked: "mine", want: `"description":"mine"`},
		"Rancher":   {},
	} {
		t.Run(name, func(t *testing.T) {
			o := seen(testCluster())
			if tc.asked != "" {
				annotated("cluster-api.cattle.io/cluster-description", tc.asked)(o.cluster)
			}
			object := v3Record()
			object.Annotations, object.Spec.Description = tc.annotations, "from Rancher"
			d := &deciding{Rules: Rules{Active: decideV3{}}, Observation: o.withManagement(object)}
			d.record, d.management = &record{Object: object, strategy: decideV3{}}, viewOf(object)
			v1Behind := record{Object: v1Of(), strategy: decideV1{}}
			own, ok := d.syncRecord().Actions[0].(updateRecord)
			d.record = &v1Behind
			behind, ok2 := d.syncManagement().Actions[0].(updateManagement)
			if !ok || !ok2 {
				t.Fatal("nothing is brought in line")
			}
			for where, patch := range map[string]string{"record": string(own.patch), "v3 Cluster behind it": string(behind.patch)} {
				if !strings.Contains(patch, tc.want) || tc.want == "" && strings.Contains(patch, "description\":") {
					t.Errorf("the %s gets %s, want %s", where, patch, tc.want)
				}
			}
		})
	}
}

// copies are those of all objects that are known.
func copies(o *Observation) []any {
	var all []any
	if o.cluster != nil {
		all = append(all, o.cluster.DeepCopy())
	}
	for _, known := range slices.Concat(o.records, o.derived) {
		all = append(all, known.DeepCopyObject())
	}
	for _, name := range slices.Sorted(maps.Keys(o.managements)) {
		all = append(all, o.managements[name].object.DeepCopy())
	}
	return append(all, maps.Clone(o.answered), o.intent)
}

// renaming shows the name that the annotation asks for.
type renaming struct{ decideV3 }

func (renaming) DisplayName(d Desired) (string, bool) { return namingV3{}.DisplayName(d) }

// Whoever reads the page about the architecture finds the rules as they are.
func TestThePageListsTheRules(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "development", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i := intentNothing; i <= intentIdle; i++ {
		var phases []string
		for _, rule := range rulesOf(i) {
			phases = append(phases, "`"+rule.name+"`")
		}
		listed := false
		for line := range strings.Lines(string(page)) {
			cells := strings.Split(line, " | ")
			listed = listed || len(cells) == 2 && slices.Contains(strings.Split(strings.TrimPrefix(cells[0], "| "), ", "), i.String()) &&
				strings.TrimSuffix(strings.TrimSpace(cells[1]), " |") == strings.Join(phases, ", ")
		}
		if !listed {
			t.Errorf("the page does not have the phases of the intent %q: %s", i, strings.Join(phases, ", "))
		}
	}
}
