package capi

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestCounts(t *testing.T) {
	few := map[types.NamespacedName]Status{}
	for name, state := range map[string]State{"one": Engaged, "two": Pending, "three": Disconnected, "four": Disconnected} {
		few[types.NamespacedName{Namespace: "tenant-a", Name: name}] = Status{State: state}
	}
	few[types.NamespacedName{Namespace: "tenant-b", Name: "one"}] = Status{State: Disconnected}
	many := map[types.NamespacedName]Status{}
	for n := range maxNamespaces + 1 {
		many[types.NamespacedName{Namespace: fmt.Sprintf("tenant-%d", n), Name: "prod"}] = Status{State: Connecting}
	}
	for name, tc := range map[string]struct {
		statuses map[types.NamespacedName]Status
		want     map[group]int
	}{
		"None": {want: map[group]int{}},
		"NamespacesOfTrouble": {statuses: few, want: map[group]int{
			{state: Engaged}: 1, {state: Pending}: 1, {Disconnected, "tenant-a"}: 2, {Disconnected, "tenant-b"}: 1,
		}},
		"TooManyNamespaces": {statuses: many, want: map[group]int{{state: Connecting}: maxNamespaces + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, state := range States() { // A state that no cluster has is counted, too.
				if _, named := tc.want[group{state: state}]; !named {
					tc.want[group{state: state}] = 0
				}
			}
			if diff := cmp.Diff(tc.want, counts(tc.statuses), cmp.AllowUnexported(group{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
