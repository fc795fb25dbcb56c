package importer

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
)

// manyLabels returns labels of so many bytes.
func manyLabels(bytes int) map[string]string {
	labels := map[string]string{}
	for i := 0; controllerSize(labels) < bytes; i++ {
		labels[fmt.Sprintf("example.com/%05d-%s", i, strings.Repeat("x", 30))] = strings.Repeat("v", 52)
	}
	return labels
}

func controllerSize(labels map[string]string) (size int) { return len(labels) * 100 }

// What exceeds the bound is known by that, and what is read by its key is there all the same.
func TestLabelsBeyondTheBoundAreNoneThatWereTakenOff(t *testing.T) {
	selector, err := NewSelector("zone=z1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rules := Rules{Selector: selector, UnpropagatedLabels: []string{"unpropagated.example.com/*"}}
	cluster := testCluster(held)
	cluster.Labels = manyLabels(1 << 20)
	named := map[string]string{"zone": "z1", clusterv1.WatchLabel: "a", "cluster-api.cattle.io/rancher-auto-import": "true"}
	maps.Copy(cluster.Labels, named)
	whole := cluster.DeepCopy()
	for range 2 {
		if _, err := rules.Reduce(cluster); err != nil {
			t.Fatal(err)
		}
		if size := len(cluster.Labels) * 100; size > 20<<10 {
			t.Errorf("%d KiB are left", size>>10)
		}
		for key, value := range named {
			if cluster.Labels[key] != value {
				t.Errorf("label %s is %q", key, cluster.Labels[key])
			}
		}
	}
	for name, one := range map[string]*clusterv1.Cluster{"as it is": whole, "reduced": cluster} {
		_, err := rules.desired(one, "x")
		if out := outcome.FromError(err, ""); out.Kind != outcome.KindStall || out.Reason != "TooManyLabels" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The labels that Rancher clusters do not get do not count.
func TestUnpropagatedLabelsHaveNoBound(t *testing.T) {
	rules := Rules{UnpropagatedLabels: []string{"example.com/*"}}
	cluster := testCluster(held)
	cluster.Labels = manyLabels(1 << 20)
	cluster.Labels["team"] = "blue"
	if _, err := rules.Reduce(cluster); err != nil {
		t.Fatal(err)
	}
	labels, err := rules.propagatedLabels(cluster)
	if err != nil || !maps.Equal(labels, map[string]string{"team": "blue"}) || len(cluster.Labels) > 10 {
		t.Errorf("got %v, %v, of %d labels", labels, err, len(cluster.Labels))
	}
}

// Labels that are just within the bound are all there, whatever other labels there are.
func TestLabelsWithinTheBoundAreWhole(t *testing.T) {
	cluster := testCluster(held)
	cluster.Labels = manyLabels(controller.MaxLabels - 200)
	want := maps.Clone(cluster.Labels)
	for i := range 1000 {
		cluster.Labels[fmt.Sprintf("app.kubernetes.io/%04d", i)] = strings.Repeat("v", 60)
	}
	cluster.Labels[clusterv1.WatchLabel] = strings.Repeat("w", 60)
	if _, err := (Rules{}).Reduce(cluster); err != nil {
		t.Fatal(err)
	}
	if got, err := (Rules{}).propagatedLabels(cluster); err != nil || !maps.Equal(got, want) {
		t.Errorf("got %d of %d labels: %v", len(got), len(want), err)
	}
}

// A list of finalizers is written as a whole: those that the cache has left out stay.
func TestFinalizersBeyondTheBoundStay(t *testing.T) {
	whole := testCluster(held)
	whole.ResourceVersion = ""
	ours := slices.Clone(whole.Finalizers)
	var others []string
	for i := range 1000 {
		others = append(others, fmt.Sprintf("example.com/%04d-%s", i, strings.Repeat("x", 50)))
	}
	whole.Finalizers = append(slices.Clone(others), ours...)
	b := newBench(t, instance.Claim{}, whole)
	cluster := &clusterv1.Cluster{}
	get := func() {
		t.Helper()
		if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(whole), cluster); err != nil {
			t.Fatal(err)
		}
	}
	get()
	reduce(t, cluster)
	if !holds(cluster) || len(cluster.Finalizers) > 200 {
		t.Fatalf("%d finalizers are left, with ours: %v", len(cluster.Finalizers), holds(cluster))
	}
	o := seen(cluster)
	if out := b.obey(t.Context(), o, (*deciding).releaseCluster).Outcome; out.Err != nil {
		t.Fatal(out.Err)
	}
	cluster = &clusterv1.Cluster{}
	get()
	if !slices.Equal(cluster.Finalizers, others) {
		t.Errorf("%d finalizers are left, want the %d of others", len(cluster.Finalizers), len(others))
	}
}

// An annotation that is read has to be among those that are kept whatever else there is, or on neither kind of cluster.
func TestAnnotationsThatAreReadAreKept(t *testing.T) {
	elsewhere := []string{ // On Leases and Secrets, and in workload clusters.
		"archelon.io/scope", "archelon.io/works-in", "archelon.io/unelected", "archelon.io/leaving", "archelon.io/watch-filter",
		"archelon.io/namespace-selector", "archelon.io/agent-cluster", "archelon.io/applied", "archelon.io/manifest-input",
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/metadata.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasSuffix(spec.Names[0].Name, "Annotation") {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		found++
		if key, err := strconv.Unquote(literal.Value); err != nil || !slices.Contains(append(annotationsByKey(), elsewhere...), key) {
			t.Errorf("%s is not kept: %v", key, err)
		}
		return true
	})
	if found < 20 {
		t.Errorf("found %d annotations", found)
	}
}

// Texts that are kept do not keep what they were cut from.
func TestReducedClustersTakeLittleMemory(t *testing.T) {
	const clusters = 20
	raw := func() []byte {
		cluster := fullCluster()
		cluster.Labels = manyLabels(1 << 20)
		cluster.Annotations["archelon.io/display-name"] = strings.Repeat("x", 200<<10)
		cluster.OwnerReferences = []metav1.OwnerReference{{Kind: strings.Repeat("x", 200<<10)}}
		encoded, err := json.Marshal(cluster)
		if err != nil {
			t.Fatal(err)
		}
		return encoded
	}()
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	kept := make([]*clusterv1.Cluster, clusters)
	for i := range kept {
		kept[i] = &clusterv1.Cluster{}
		if err := json.Unmarshal(raw, kept[i]); err != nil {
			t.Fatal(err)
		}
		reduce(t, kept[i])
	}
	each := (heap() - before) / clusters
	runtime.KeepAlive(kept)
	runtime.KeepAlive(raw)
	t.Logf("a cluster with %d KiB and %d labels takes %d bytes", len(raw)>>10, len(kept[0].Labels), each)
	if each > 60<<10 {
		t.Errorf("a cluster takes %d KiB, want at most 60", each>>10)
	}
}

// A Rancher user can write as much into the list of propagated annotations as the API server takes.
func TestAHostileListOfAnnotationsIsBounded(t *testing.T) {
	many := map[string]string{"archelon.io/propagated-annotations": ""}
	var keys []string
	for i := range 1500 {
		key := fmt.Sprintf("example.com/%04d", i)
		many[key], keys = strings.Repeat("v", 150), append(keys, key)
	}
	for name, list := range map[string]string{"long": strings.Repeat("a/b,", 60<<10), "many": strings.Join(keys, ",")} {
		record := fullManagement()
		record.Annotations = maps.Clone(many)
		record.Annotations["archelon.io/propagated-annotations"] = list
		reduce(t, record)
		size := 0
		for key, value := range record.Annotations {
			size += len(key) + len(value)
		}
		if size > 128<<10 {
			t.Errorf("%s: %d KiB are left", name, size>>10)
		}
	}
}
