package importer

import (
	"context"
	"strings"
	"testing"
	"time"

	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
)

// ownedOnly shows what the manager's cache holds of v1 Clusters: those with owner labels.
type ownedOnly struct{ client.Client }

func (c ownedOnly) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*provisioningv1.Cluster); !ok {
		return c.Client.Get(ctx, key, object, options...)
	}
	found := &provisioningv1.Cluster{}
	if err := c.Client.Get(ctx, key, found, options...); err != nil {
		return err
	}
	if _, owned := found.Labels["cluster-api.cattle.io/owned"]; !owned {
		key.Name = "not-in-the-cache"
	}
	return c.Client.Get(ctx, key, object, options...)
}

// counted counts reads.
type counted struct {
	client.Reader
	reads int
}

func (c *counted) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	c.reads++
	return c.Reader.Get(ctx, key, object, options...)
}

func TestNamesake(t *testing.T) {
	madeInRancher := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "prod"}}
	elsewhere := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "prod"}}
	ofAnother := madeInRancher.DeepCopy()
	ofAnother.Labels = map[string]string{"cluster-api.cattle.io/owned": ""}
	for name, tc := range map[string]struct {
		reason   string
		record   string
		objects  []client.Object
		kind     outcome.Kind
		reads    int
		mentions string
	}{
		"None":          {reason: "one request says that there is none", objects: []client.Object{elsewhere}, kind: outcome.KindDone, reads: 1},
		"MadeInRancher": {reason: "it has no labels, so the cache does not show it", objects: []client.Object{madeInRancher}, kind: outcome.KindPoll, reads: 1, mentions: "Do not delete"},
		"OfAnother":     {reason: "the cache shows it", objects: []client.Object{ofAnother}, kind: outcome.KindStall, mentions: "another CAPI Cluster"},
		"Begun":         {reason: "an import that has begun is not asked about", record: "v3/c-abcde", objects: []client.Object{madeInRancher}, kind: outcome.KindDone},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster()
			if tc.record != "" {
				annotated(recordKey, tc.record)(cluster)
			}
			b := newBench(t, instance.Claim{}, tc.objects...)
			b.Others = []Strategy{v1Strategy{}}
			live := &counted{Reader: b.Client}
			b.Client, b.APIReader = ownedOnly{b.Client}, live
			out := b.obey(t.Context(), seen(cluster), (*deciding).checkNamesake).Outcome
			if out.Kind != tc.kind || live.reads != tc.reads || !strings.Contains(out.Message, tc.mentions) {
				t.Errorf("%s: got %s %q after %d requests", tc.reason, out.Kind, out.Message, live.reads)
			}
			if !out.IsDone() && out.Reason != "RancherClusterNameTaken" {
				t.Errorf("%s: the reason is %s", tc.reason, out.Reason)
			}
		})
	}
}

// No watch tells that a v1 Cluster of Rancher's own goes.
func TestANamesakeIsLookedForLessAndLessOften(t *testing.T) {
	namesake := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "prod"}}
	b := newBench(t, instance.Claim{}, namesake)
	b.Others = []Strategy{v1Strategy{}}
	live := &counted{Reader: b.Client}
	b.Client, b.APIReader = ownedOnly{b.Client}, live
	look := func() outcome.Outcome {
		return b.obey(t.Context(), seen(testCluster()), (*deciding).checkNamesake).Outcome
	}
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		out := look()
		if out.After != want || live.reads != i+1 {
			t.Fatalf("look %d: again after %s with %d requests, want %s", i+1, out.After, live.reads, want)
		}
		b.clock.Step(want / 2)
		if again := look(); again.After != want/2 || live.reads != i+1 || again.Message != out.Message {
			t.Fatalf("an event in between: again after %s with %d requests", again.After, live.reads)
		}
		b.clock.Step(want / 2)
	}
	if err := b.Client.Delete(t.Context(), namesake); err != nil {
		t.Fatal(err)
	}
	if out := look(); !out.IsDone() {
		t.Errorf("it is gone, and the import stops with %s", out.Message)
	}
	if left := b.looks.left(client.ObjectKeyFromObject(testCluster()), b.clock.Now()); left != 0 {
		t.Errorf("a pause of %s is left", left)
	}
}
