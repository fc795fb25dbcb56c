package importer

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
)

// namingV3 and namingV1 name records as the strategies do.
type namingV3 struct{ v3Strategy }

func (namingV3) ProposeName(*clusterv1.Cluster, func(string) bool) string { return "c-new22" }
func (namingV3) DisplayName(d Desired) (string, bool) {
	if d.DisplayName != "" {
		return d.DisplayName, true
	}
	return d.Form.Of(d.Cluster), true
}

type namingV1 struct{ v1Strategy }

func (namingV1) ProposeName(c *clusterv1.Cluster, taken func(string) bool) string {
	if name := c.Name + "-capi"; !taken(name) {
		return name
	}
	return c.Name + "-2-capi"
}
func (namingV1) DisplayName(d Desired) (string, bool) {
	return d.Name, d.FleetWorkspace != "" && d.FleetWorkspace != d.Cluster.Namespace
}

// names is a cache of the display names of a Rancher.
type names struct {
	client.Reader
	all   []*rancher.NamedCluster
	index client.IndexerFunc
}

// IndexField remembers the index; List applies it.
func (n *names) IndexField(_ context.Context, _ client.Object, _ string, index client.IndexerFunc) error {
	n.index = index
	return nil
}

func (n *names) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var wanted client.ListOptions
	wanted.ApplyOptions(options)
	found := list.(*rancher.NamedClusterList) //nolint:forcetypeassert // of this test
	for _, cluster := range n.all {
		if slices.Contains(n.index(cluster), wanted.FieldSelector.Requirements()[0].Value) {
			found.Items = append(found.Items, *cluster)
		}
	}
	return nil
}

// named has the bench know display names.
func (b *bench) named(t *testing.T, clusters ...*rancher.NamedCluster) {
	t.Helper()
	n := &names{all: clusters}
	var err error
	if b.DisplayNames, err = rancher.NewDisplayNames(t.Context(), n, n); err != nil {
		t.Fatal(err)
	}
}

// v3Named is a v3 Cluster of the given age.
func v3Named(name, display string, age time.Duration) *rancher.NamedCluster {
	return &rancher.NamedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).Add(-age)),
		},
		Spec: rancher.NamedClusterSpec{DisplayName: display},
	}
}

func ending(c *rancher.NamedCluster) *rancher.NamedCluster {
	c.DeletionTimestamp = &c.CreationTimestamp
	return c
}

// newNameCase is an import that is about to create its record.
type newNameCase struct {
	reason   string
	strategy Strategy
	cluster  *clusterv1.Cluster
	record   string
	own      []record
	others   []*rancher.NamedCluster
	reserved string
	kind     outcome.Kind
	says     string
}

func (tc newNameCase) run(t *testing.T) {
	cluster, strategy, record := testCluster(), Strategy(namingV3{}), "c-new22"
	if tc.cluster != nil {
		cluster = tc.cluster
	}
	if tc.strategy != nil {
		strategy = tc.strategy
	}
	if tc.record != "" {
		record = tc.record
	}
	b := newBench(t, instance.Claim{})
	b.Active = strategy
	b.named(t, tc.others...)
	if tc.reserved != "" {
		b.reserved.take("prod", types.UID(tc.reserved), b.clock.Now())
	}
	desired, err := (Rules{}).desiredRecord(cluster, record)
	if err != nil {
		t.Fatal(err)
	}
	out := b.obey(t.Context(), seen(cluster, tc.own...), func(d *deciding) Decision { return d.claimDisplayName(desired) }).Outcome
	if out.Kind != tc.kind || !strings.Contains(out.Message, tc.says) {
		t.Errorf("%s: got %s %q", tc.reason, out.Kind, out.Message)
	}
	if !out.IsDone() && out.Reason != "DisplayNameTaken" {
		t.Errorf("%s: the reason is %s", tc.reason, out.Reason)
	}
}

func TestANewRecordGetsAFreeDisplayNameOnly(t *testing.T) {
	for name, tc := range map[string]newNameCase{
		"Free":        {reason: "nobody has it", others: []*rancher.NamedCluster{v3Named("c-other", "prod-2", 0)}, kind: outcome.KindDone},
		"Taken":       {reason: "somebody has it", others: []*rancher.NamedCluster{v3Named("c-other", "prod", 0)}, kind: outcome.KindStall, says: "c-other"},
		"Case":        {reason: "Rancher's API does not tell cases apart", others: []*rancher.NamedCluster{v3Named("c-other", "Prod", 0)}, kind: outcome.KindStall, says: "archelon.io/display-name"},
		"Local":       {reason: "Rancher's own counts", cluster: testCluster(annotated("archelon.io/display-name", "local")), others: []*rancher.NamedCluster{v3Named("local", "local", 0)}, kind: outcome.KindStall, says: "local"},
		"Other":       {reason: "the annotation is another name", cluster: testCluster(annotated("archelon.io/display-name", "blue")), others: []*rancher.NamedCluster{v3Named("c-other", "prod", 0)}, kind: outcome.KindDone},
		"OtherTaken":  {reason: "that one is taken as well", cluster: testCluster(annotated("archelon.io/display-name", "blue")), others: []*rancher.NamedCluster{v3Named("c-other", "blue", 0)}, kind: outcome.KindStall, says: `"blue"`},
		"Ending":      {reason: "a Rancher cluster that is being deleted has left it: an earlier record of this cluster for example", others: []*rancher.NamedCluster{ending(v3Named("c-other", "prod", 0))}, kind: outcome.KindDone},
		"Companion":   {reason: "the v3 Cluster behind its own v1 record is about to go", others: []*rancher.NamedCluster{{ObjectMeta: metav1.ObjectMeta{Name: "c-m-1"}, Spec: rancher.NamedClusterSpec{DisplayName: "prod"}, Owner: "uid-1"}}, kind: outcome.KindDone},
		"Unlabelled":  {reason: "the record itself, which has lost its labels", record: "c-other", others: []*rancher.NamedCluster{v3Named("c-other", "prod", 0)}, kind: outcome.KindDone},
		"Followed":    {reason: "there is a record: it is judged when its agent is installed", own: []record{{Object: v3Record(), strategy: namingV3{}}}, others: []*rancher.NamedCluster{v3Named("c-other", "prod", 0)}, kind: outcome.KindDone},
		"Reserved":    {reason: "another import is about to get it", reserved: "uid-2", kind: outcome.KindPoll, says: "another import is creating"},
		"OwnReserved": {reason: "it is this import", reserved: "uid-1", kind: outcome.KindDone},
		"V1":          {reason: "its Fleet workspace is its own namespace", strategy: namingV1{}, record: "prod-capi", others: []*rancher.NamedCluster{v3Named("c-other", "prod-capi", 0)}, kind: outcome.KindDone},
		"V1Elsewhere": {
			reason: "it asks for a workspace of others", strategy: namingV1{}, record: "prod-capi", cluster: testCluster(annotated("archelon.io/fleet-workspace", "fleet-default")),
			others: []*rancher.NamedCluster{v3Named("c-other", "prod-capi", 0)}, kind: outcome.KindStall, says: "Remove annotation archelon.io/fleet-workspace",
		},
	} {
		t.Run(name, tc.run)
	}
}

func v1Of() *provisioningv1.Cluster {
	return &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "prod-capi", UID: "record-2", Labels: v3Record().Labels}}
}

func TestOneOfTwoRecordsOfANameGetsAnAgent(t *testing.T) {
	own := v3Named("c-abcde", "prod", time.Minute)
	own.UID, own.Owner = "record-1", "uid-1"
	behind := v3Named("c-m-12345", "prod-capi", time.Minute)
	first := v3Named("c-first", "prod", time.Minute)
	first.UID = "a"
	for name, tc := range map[string]struct {
		reason    string
		names     []*rancher.NamedCluster
		v1        string // the workspace of the v3 Cluster behind a v1 record
		known     bool
		connected bool
		want      string
	}{
		"Alone":     {reason: "nobody else has it", names: []*rancher.NamedCluster{own}},
		"Older":     {reason: "another one had it before", names: []*rancher.NamedCluster{own, v3Named("c-older", "PROD", time.Hour)}, want: "DisplayNameTaken"},
		"Younger":   {reason: "another one got it later: that one waits", names: []*rancher.NamedCluster{own, v3Named("c-young", "prod", time.Second)}},
		"SameTime":  {reason: "the UID decides", names: []*rancher.NamedCluster{own, first}, want: "DisplayNameTaken"},
		"Ending":    {reason: "the older one goes", names: []*rancher.NamedCluster{own, ending(v3Named("c-older", "prod", time.Hour))}},
		"NotSeen":   {reason: "who is older cannot be known before the watch shows the record", names: []*rancher.NamedCluster{v3Named("c-young", "prod", 0)}, want: "WaitingForRancher"},
		"Known":     {reason: "it was connected before: somebody renamed the other one, or both are from before this check", names: []*rancher.NamedCluster{own, v3Named("c-older", "prod", time.Hour)}, known: true},
		"Connected": {reason: "it is connected: adopted from Turtles, for example", names: []*rancher.NamedCluster{own, v3Named("c-older", "prod", time.Hour)}, connected: true},
		"V1":        {reason: "its Fleet workspace is its own namespace", v1: "tenant", names: []*rancher.NamedCluster{behind, v3Named("c-older", "prod-capi", time.Hour)}},
		"V1Elsewhere": {
			reason: "its Fleet workspace is one of others", v1: "fleet-default",
			names: []*rancher.NamedCluster{behind, v3Named("c-older", "prod-capi", time.Hour)}, want: "DisplayNameTaken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, instance.Claim{})
			b.Active, b.Others = namingV3{}, []Strategy{namingV1{}}
			b.named(t, tc.names...)
			object := v3Record()
			object.Spec.DisplayName = "prod"
			o := seen(testCluster(held), record{Object: object, strategy: namingV3{}})
			if tc.v1 != "" {
				o.records[0] = record{Object: v1Of(), strategy: namingV1{}}
				object = &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: behind.Name, UID: behind.UID}}
				object.Spec.DisplayName, object.Spec.FleetWorkspaceName = "prod-capi", tc.v1
			}
			object.Status = withConditions(map[string]corev1.ConditionStatus{
				"Waiting": conditionStatus(tc.known), "Connected": conditionStatus(tc.connected),
			}).Status
			if out := b.obey(t.Context(), o.withManagement(object), (*deciding).checkDisplayName).Outcome; out.Reason != tc.want {
				t.Errorf("%s: got %s %q, want %s", tc.reason, out.Reason, out.Message, tc.want)
			}
		})
	}
}

// Two processes that both are behind decide alike, whatever each has seen of the other when it created its record.
func TestTwoProcessesAgreeOnADisplayName(t *testing.T) {
	records := []*rancher.NamedCluster{v3Named("c-one", "prod", time.Minute), v3Named("c-two", "prod", time.Minute)}
	var installed []string
	for _, mine := range records {
		b := newBench(t, instance.Claim{})
		b.Active = namingV3{}
		b.named(t, records...)
		object := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: mine.Name, UID: mine.UID}}
		object.Spec.DisplayName = "prod"
		o := seen(testCluster(func(c *clusterv1.Cluster) { c.UID = "of-" + mine.UID }), record{Object: object, strategy: namingV3{}})
		if b.obey(t.Context(), o.withManagement(object), (*deciding).checkDisplayName).Outcome.IsDone() {
			installed = append(installed, mine.Name)
		}
	}
	if diff := cmp.Diff([]string{"c-one"}, installed); diff != "" {
		t.Errorf("agents are installed for (-want +got):\n%s", diff)
	}
}

func TestADisplayNameIsChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		reason     string
		annotation string
		form       string // of the Rancher cluster
		chosen     DisplayNameForm
		has        string
		others     []*rancher.NamedCluster
		want       string
		name       string
	}{
		"Kept":       {reason: "it was created under its name, and the other form was chosen since", chosen: NamespaceNameForm, has: "prod", name: "prod"},
		"Back":       {reason: "the same, and it was renamed in Rancher", chosen: NamespaceNameForm, has: "tenant-prod", name: "prod"},
		"FormKept":   {reason: "it was created with its namespace, and the other form was chosen since", form: "NamespaceName", chosen: NameForm, has: "tenant-prod", name: "tenant-prod"},
		"FormBack":   {reason: "the same, and it was renamed in Rancher", form: "NamespaceName", has: "prod", name: "tenant-prod"},
		"FormAsked":  {reason: "the annotation wins", form: "NamespaceName", annotation: "blue", has: "tenant-prod", name: "blue"},
		"NoForm":     {reason: "somebody has written another form, which is none", form: "Any", has: "prod", name: "prod"},
		"Asked":      {reason: "the annotation is set later", annotation: "blue", has: "prod", name: "blue"},
		"AskedTaken": {reason: "the asked name is another's", annotation: "blue", has: "prod", others: []*rancher.NamedCluster{v3Named("c-other", "Blue", 0)}, want: "DisplayNameTaken", name: "prod"},
		"TakenBack":  {reason: "the annotation was removed", has: "blue", name: "prod"},
		"Renamed":    {reason: "it was renamed in Rancher, and somebody else has its name since: it keeps the one that it has", has: "blue", others: []*rancher.NamedCluster{v3Named("c-other", "prod", 0)}, name: "blue"},
		"Same":       {reason: "nothing to do", has: "prod", others: []*rancher.NamedCluster{v3Named("c-other", "prod", 0)}, name: "prod"},
	} {
		t.Run(name, func(t *testing.T) {
			object := v3Record()
			object.Spec.DisplayName = tc.has
			if tc.form != "" {
				metav1.SetMetaDataAnnotation(&object.ObjectMeta, "archelon.io/display-name-form", tc.form)
			}
			object.Status = withConditions(map[string]corev1.ConditionStatus{"Waiting": corev1.ConditionTrue, "Connected": corev1.ConditionTrue}).Status
			b := newBench(t, instance.Claim{}, object)
			b.Active, b.DisplayName = namingV3{}, tc.chosen
			b.named(t, append(tc.others, v3Named("c-abcde", tc.has, time.Hour))...)
			cluster := testCluster(held)
			if tc.annotation != "" {
				annotated("archelon.io/display-name", tc.annotation)(cluster)
			}
			live := v3Record()
			b.there(t, live)
			o := seen(cluster, record{Object: v3Record(), strategy: namingV3{}}).withManagement(live)
			if out := b.obey(t.Context(), o, (*deciding).checkDisplayName).Outcome; out.Reason != tc.want {
				t.Errorf("%s: got %s %q, want %s", tc.reason, out.Reason, out.Message, tc.want)
			}
			found := v3Record()
			if b.there(t, found); found.Spec.DisplayName != tc.name {
				t.Errorf("%s: it is called %q, want %q", tc.reason, found.Spec.DisplayName, tc.name)
			}
		})
	}
}

func TestReservations(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := newReservations()
	for _, step := range []struct {
		reason    string
		name, who string
		after     time.Duration
		want      time.Duration
	}{
		{reason: "it is free", name: "prod", who: "a"},
		{reason: "another one is about to get it", name: "prod", who: "b", after: time.Second, want: madeTrust - time.Second},
		{reason: "it is the same import", name: "prod", who: "a", after: 2 * time.Second},
		{reason: "the time was extended by that", name: "prod", who: "b", after: 3 * time.Second, want: madeTrust - time.Second},
		{reason: "another name", name: "blue", who: "b", after: 3 * time.Second},
		{reason: "whoever did not get it in time starts over", name: "prod", who: "a", after: time.Minute},
	} {
		if got := r.take(step.name, types.UID(step.who), now.Add(step.after)); got != step.want {
			t.Errorf("%s: %s left, want %s", step.reason, got, step.want)
		}
	}
	if got := slices.Collect(maps.Keys(r.names)); len(got) != 1 {
		t.Errorf("what has run out is kept: %q", got)
	}
}

func TestWantedNames(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		strategy Strategy
		cluster  *clusterv1.Cluster
		want     []string
	}{
		"V3":          {"the name of the cluster", namingV3{}, testCluster(), []string{"prod"}},
		"V3Asked":     {"the name that is asked for", namingV3{}, testCluster(annotated("archelon.io/display-name", "blue")), []string{"prod", "blue"}},
		"V3Invalid":   {"it has none beside that of the cluster", namingV3{}, testCluster(annotated("archelon.io/display-name", "Not A Name")), []string{"prod"}},
		"V1":          {"it waits for no name", namingV1{}, testCluster(), []string{"prod"}},
		"V1Elsewhere": {"either name that the record may have", namingV1{}, testCluster(annotated("archelon.io/fleet-workspace", "fleet-default")), []string{"prod", "prod-capi", "prod-2-capi"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, (Rules{Active: tc.strategy}).wantedNameKeys(tc.cluster)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestNameChanged(t *testing.T) {
	before := v3Named("c-abcde", "prod", 0)
	status := v3Named("c-abcde", "prod", 0)
	status.ResourceVersion = "8"
	for name, tc := range map[string]struct {
		after *rancher.NamedCluster
		want  bool
	}{
		"Status":  {status, false},
		"Renamed": {v3Named("c-abcde", "blue", 0), true},
		"Ending":  {ending(v3Named("c-abcde", "prod", 0)), true},
	} {
		if got := nameChanged().Update(event.TypedUpdateEvent[*rancher.NamedCluster]{ObjectOld: before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}

func TestDisplayNameOfUsers(t *testing.T) {
	for value, ok := range map[string]bool{
		"": true, "prod-1": true, "1": true, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false, "Prod": false, "prod.eu": false, "-prod": false, "prod\t": false,
		"a,b": false, "pröd": false, "a\nb": false, "${x}": false,
	} {
		got, err := displayName(map[string]string{"archelon.io/display-name": value})
		if ok != (err == nil) || ok && got != value {
			t.Errorf("%q: got %q, %v", value, got, err)
		}
		if err != nil && value != "" && strings.Contains(err.Error(), value) && len(value) > 2 {
			t.Errorf("the message quotes what a user wrote: %v", err)
		}
	}
}
