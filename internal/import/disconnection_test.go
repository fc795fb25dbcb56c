package importer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/rancher"
)

func TestGraceLeft(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const grace = 45 * time.Second
	for name, tc := range map[string]struct {
		reason         string
		seen, reported time.Time
		grace          time.Duration
		want           time.Duration
	}{
		"First":       {reason: "it was seen just now", seen: now, reported: now, grace: grace, want: grace},
		"Later":       {reason: "a part of the grace is over", seen: ago(10 * time.Second), reported: ago(10 * time.Second), grace: grace, want: 35 * time.Second},
		"Over":        {reason: "it has lasted", seen: ago(grace), reported: ago(grace), grace: grace},
		"LongOver":    {reason: "it has lasted", seen: ago(time.Hour), reported: ago(time.Hour), grace: grace},
		"Off":         {reason: "there is no grace", seen: now, reported: now},
		"Unreported":  {reason: "Rancher does not say since when", seen: ago(10 * time.Second), grace: grace, want: 35 * time.Second},
		"Restarted":   {reason: "a restart a moment ago grants a grace once more", seen: now, reported: ago(40 * time.Second), grace: grace, want: grace},
		"Restarting":  {reason: "restarts without end must not hide it", seen: now, reported: ago(6 * time.Minute), grace: grace},
		"ClockBehind": {reason: "Rancher's clock is two minutes behind: no grace would be left", seen: ago(10 * time.Second), reported: ago(130 * time.Second), grace: grace, want: 35 * time.Second},
		"ClockAhead":  {reason: "Rancher's clock is a day ahead: the grace would last as long", seen: ago(10 * time.Second), reported: ago(-24 * time.Hour), grace: grace, want: 35 * time.Second},
		"ClockDays":   {reason: "Rancher's clock is a day behind: it is looked into at once, as without a grace", seen: now, reported: ago(24 * time.Hour), grace: grace},
		"ClockBack":   {reason: "our own clock was set back by an hour", seen: ago(-time.Hour), reported: now, grace: grace, want: grace},
	} {
		t.Run(name, func(t *testing.T) {
			if got := graceLeft(tc.seen, tc.reported, now, tc.grace); got != tc.want {
				t.Errorf("graceLeft() = %s, want %s: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// storm is a number of imported clusters whose agents lose their connection at the same time.
type storm struct {
	*bench
	cache testCache
	// writes and reads are the requests to the API server.
	writes, reads atomic.Int64
	records       []*managementv3.Cluster
	clusters      []*clusterv1.Cluster
	version       int
}

func newStorm(t *testing.T, n int, grace time.Duration) *storm {
	t.Helper()
	s := &storm{bench: newBench(t, instance.Claim{})}
	s.DisconnectGrace, s.Recorder = grace, events.NewFakeRecorder(4*n)
	var objects []client.Object
	for _, name := range rancher.SettingNames() {
		objects = append(objects, &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: "https://rancher.example.com"})
	}
	for i := range n {
		cluster := testCluster(held)
		cluster.Name, cluster.UID, cluster.ResourceVersion = fmt.Sprintf("cluster-%d", i), types.UID(fmt.Sprintf("uid-%d", i)), "1"
		cluster.Labels = map[string]string{"cluster-api.cattle.io/rancher-auto-import": "true"}
		cluster.Annotations[recordKey] = fmt.Sprintf("v3/c-%d", i)
		cluster.Annotations["archelon.io/instance"] = s.Self.String()
		conditions.Set(cluster, metav1.Condition{Type: "RancherImported", Status: metav1.ConditionTrue, Reason: "Imported"})
		desired, err := (Rules{}).desiredRecord(cluster, fmt.Sprintf("c-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		record := v3Record()
		record.Name, record.UID = desired.Name, types.UID("record-"+desired.Name)
		record.Labels, record.Annotations = desired.Labels, desired.Annotations
		record.Spec.DisplayName = cluster.Name
		token := rancher.NewRegistrationToken()
		token.SetNamespace(record.Name)
		token.SetName(rancher.DefaultTokenName)
		token.Object["status"] = map[string]any{"manifestUrl": "https://rancher.example.com/v3/import/token_" + record.Name + ".yaml", "token": "token"}
		s.clusters, s.records = append(s.clusters, cluster), append(s.records, record)
		objects = append(objects, cluster, record, token)
	}
	s.cache = newTestCache(t, objects...)
	count := func(counter *atomic.Int64) { counter.Add(1) }
	s.Client = cached(t, s.cache, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			count(&s.writes)
			return nil
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			count(&s.writes)
			return nil
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			count(&s.writes)
			return nil
		},
		SubResourceApply: func(ctx context.Context, _ client.Client, _ string, object runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			count(&s.writes)
			return s.applied(ctx, object)
		},
	})
	s.APIReader = interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			count(&s.reads)
			return errors.New("the API server has enough to do")
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			count(&s.reads)
			return errors.New("the API server has enough to do")
		},
	})
	s.Active, s.tokenSecrets, s.assigned = fullV3Strategy{}, s.cache, s.cache
	s.named(t)
	var err error
	if s.Settings, err = rancher.NewSettings(s.cache); err != nil {
		t.Fatal(err)
	}
	if s.Tokens, err = rancher.NewTokens(s.cache, s.APIReader); err != nil {
		t.Fatal(err)
	}
	return s
}

// applied has the cache show the condition that was written.
func (s *storm) applied(ctx context.Context, object runtime.ApplyConfiguration) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	applied := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, applied); err != nil {
		return err
	}
	for i, cluster := range s.clusters {
		if cluster.Name == applied.Name {
			s.clusters[i] = cluster.DeepCopy()
			s.clusters[i].Status.Conditions = applied.Status.Conditions
			s.cache.put(ctx, s.clusters[i])
		}
	}
	return nil
}

// report has Rancher report all agents as connected, or as disconnected.
func (s *storm) report(status corev1.ConditionStatus) {
	s.version++
	for i := range s.records {
		record := s.records[i].DeepCopy()
		record.ResourceVersion = fmt.Sprintf("%d", 100+s.version)
		record.Status.Conditions = []managementv3.ClusterCondition{
			{Type: "Connected", Status: status, LastUpdateTime: s.clock.Now().Format(time.RFC3339)},
			{Type: "Ready", Status: status},
			{Type: "Waiting", Status: corev1.ConditionTrue},
		}
		s.records[i] = record
		s.cache.put(s.cache.t.Context(), record)
	}
}

// reconcileAll looks at all clusters, and returns the longest time until the next look.
func (s *storm) reconcileAll(t *testing.T) time.Duration {
	t.Helper()
	var longest time.Duration
	for _, cluster := range s.clusters {
		result, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cluster)})
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, result.RequeueAfter)
	}
	return longest
}

// want checks how many writes there were since it was called last. Reads there must be none.
func (s *storm) want(t *testing.T, when string, writes int64) {
	t.Helper()
	w, r := s.writes.Swap(0), s.reads.Swap(0)
	t.Logf("%s: %.2f writes and %.2f reads for each cluster", when, float64(w)/float64(len(s.clusters)), float64(r)/float64(len(s.clusters)))
	if w != writes || r != 0 {
		t.Errorf("%s: %d writes and %d reads, want %d and none", when, w, r, writes)
	}
}

// When Rancher restarts, all agents lose their connection for a moment.
func TestAFlapOfAllAgentsCostsNothing(t *testing.T) {
	const n, grace = 1000, 45 * time.Second
	s := newStorm(t, n, grace)
	s.report(corev1.ConditionTrue)
	s.reconcileAll(t)
	s.want(t, "settled", 0)

	s.report(corev1.ConditionFalse)
	if next := s.reconcileAll(t); next != grace {
		t.Errorf("looked at again after %s, want %s", next, grace)
	}
	s.clock.Step(30 * time.Second)
	if next := s.reconcileAll(t); next != grace-30*time.Second {
		t.Errorf("looked at again after %s, want %s", next, grace-30*time.Second)
	}
	s.report(corev1.ConditionTrue)
	if next := s.reconcileAll(t); next != 0 {
		t.Errorf("looked at again after %s, want never", next)
	}
	s.clock.Step(grace) // The look that was asked for comes all the same.
	s.reconcileAll(t)
	s.want(t, "flapped", 0)

	s.report(corev1.ConditionFalse)
	s.reconcileAll(t)
	s.clock.Step(grace)
	s.reconcileAll(t)
	s.want(t, "disconnected", n) // The reads are of the jobs, which do not run here.
	if c := conditions.Get(s.clusters[0], "RancherImported"); c.Reason != "AgentDisconnected" {
		t.Errorf("the condition says %s, want AgentDisconnected", c.Reason)
	}
	s.report(corev1.ConditionTrue)
	s.reconcileAll(t)
	s.want(t, "connected again", n)
	if len(s.disconnections.since) != 0 {
		t.Errorf("%d disconnections are remembered, want none", len(s.disconnections.since))
	}
}

// Without a grace a disconnection is told at once: that is also what a flap cost before.
func TestWithoutGraceEveryLossIsTold(t *testing.T) {
	s := newStorm(t, 10, 0)
	s.report(corev1.ConditionFalse)
	s.reconcileAll(t)
	s.report(corev1.ConditionTrue)
	s.reconcileAll(t)
	s.want(t, "flapped", 20)
}

// The grace is for agents that were connected.
func TestNoGraceBeforeTheFirstConnection(t *testing.T) {
	for name, prepare := range map[string]func(*storm){
		"NotImported": func(s *storm) {
			s.clusters[0].Status.Conditions[0].Status = metav1.ConditionFalse
			s.report(corev1.ConditionFalse)
		},
		"NeverConnected": func(s *storm) {
			s.report(corev1.ConditionFalse)
			s.records[0].Status.Conditions = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStorm(t, 1, time.Minute)
			prepare(s)
			d := &deciding{Rules: s.Rules, Observation: seen(s.clusters[0]), findings: findings{management: viewOf(s.records[0])}}
			if left, look := d.disconnectionGrace(); left != 0 || look != nil {
				t.Errorf("a grace of %s, or it asks for %v; want none", left, look)
			}
		})
	}
}

// A record that follows has its own grace.
func TestTheGraceIsOfOneRecord(t *testing.T) {
	now := time.Unix(1000, 0)
	var d disconnections
	key := types.NamespacedName{Namespace: "tenant", Name: "prod"}
	d.first(key, "one", now)
	if got := d.first(key, "one", now.Add(time.Minute)); !got.Equal(now) {
		t.Errorf("seen first at %s, want %s", got, now)
	}
	if got := d.first(key, "two", now.Add(time.Minute)); !got.Equal(now.Add(time.Minute)) {
		t.Errorf("another record was seen first at %s", got)
	}
	d.forget(key)
	if len(d.since) != 0 {
		t.Error("it is not forgotten")
	}
}
