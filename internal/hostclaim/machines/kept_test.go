package machines

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Machine that is cut must not be taken for one that asks for something else.
func TestWhatIsKeptOfAMachineSaysTheSameOrThatItCannotBeRead(t *testing.T) {
	many := map[string]any{}
	for i := range 1000 {
		many[fmt.Sprint(i)] = strings.Repeat("v", 63)
	}
	machine := func(change func(spec, annotations map[string]any)) *unstructured.Unstructured {
		object := newMachine()
		object.SetNamespace("team")
		object.SetName("m")
		object.SetLabels(map[string]string{
			"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/deployment-name": "d", "cluster.x-k8s.io/control-plane-name": "p",
		})
		spec := map[string]any{
			"failureDomain": "z", "hostSelector": map[string]any{"matchLabels": map[string]any{"a": "b"}}, "image": many,
		}
		annotations := map[string]any{
			"hostclaims.metal3.io/kind": "remote", "hostclaims.metal3.io/credentials": "s", "hostclaims.metal3.io/args": `{"x":"y"}`,
			"metal3.io/BareMetalHost": "team/h", "cluster.x-k8s.io/paused": "",
		}
		if change != nil {
			change(spec, annotations)
		}
		object.Object["spec"] = spec
		object.Object["metadata"].(map[string]any)["annotations"] = annotations //nolint:forcetypeassert // set above
		return object
	}
	keep := func(object *unstructured.Unstructured) *Machine {
		is, err := keepRequest(object)
		kept, ok := is.(*unstructured.Unstructured)
		if err != nil || !ok {
			t.Fatalf("got %T, %v", is, err)
		}
		return read(kept)
	}
	if got, want := keep(machine(nil)), read(machine(nil)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, change := range map[string]func(spec, annotations map[string]any){
		"selector": func(spec, _ map[string]any) { spec["hostSelector"] = map[string]any{"matchLabels": many} },
		"args":     func(spec, _ map[string]any) { spec["args"] = many },
		"annotation": func(_, all map[string]any) {
			all["hostclaims.metal3.io/args"] = `{"x":"` + strings.Repeat("y", 1<<16) + `"}`
		},
	} {
		got := keep(machine(change))
		if got.Problem == "" || got.Kind != "remote" || got.FailureDomain != "z" {
			t.Errorf("%s: got %q, kind %q, failure domain %q", name, got.Problem, got.Kind, got.FailureDomain)
		}
	}
}
