package uninstall

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/shard"
)

func clusterHeldFor(name, by string) object {
	found := object{}
	found.Namespace, found.Name = "tenant", name
	found.Finalizers = []string{"archelon.io/rancher-import"}
	if by != "" {
		found.Annotations = map[string]string{"archelon.io/instance": by}
	}
	return found
}

func scopeOf(t *testing.T, namespaces ...string) instance.Claim {
	t.Helper()
	scope, err := shard.New(namespaces, nil)
	if err != nil {
		t.Fatal(err)
	}
	return instance.Claim{Scope: scope}
}

// A cluster is left to others only where one works on it, and nothing is left to nobody without a word.
func TestForsaken(t *testing.T) {
	const self, other = "archelon-system/archelon", "other-system/archelon"
	free := clusterHeldFor("prod", other)
	free.Finalizers = nil
	for name, tc := range map[string]struct {
		reason  string
		cluster object
		others  map[string]instance.Claim
		want    bool
	}{
		"Ours":       {"it is let go", clusterHeldFor("prod", self), nil, false},
		"Nobodys":    {"it is let go as well", clusterHeldFor("prod", ""), nil, false},
		"Unelected":  {"it is let go as well: it ran without leader election", clusterHeldFor("prod", "archelon"), nil, false},
		"Works":      {"the other one sees to it", clusterHeldFor("prod", other), map[string]instance.Claim{other: scopeOf(t, "tenant")}, false},
		"Everywhere": {"the other one works in all namespaces", clusterHeldFor("prod", other), map[string]instance.Claim{other: scopeOf(t)}, false},
		"NotHeld":    {"nothing is left on it", free, nil, false},
		"Gone":       {"nobody would see to it", clusterHeldFor("prod", other), nil, true},
		"Moved":      {"the other one does not work there any more", clusterHeldFor("prod", other), map[string]instance.Claim{other: scopeOf(t, "blue")}, true},
		"Rubbish":    {"somebody edited it", clusterHeldFor("prod", "../.."), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			u := &uninstaller{opts: &Options{}, self: instance.ID{Namespace: "archelon-system", Name: "archelon"}}
			errs := u.forsaken([]object{tc.cluster}, tc.others)
			if (len(errs) == 1) != tc.want {
				t.Fatalf("got %v, want an error: %t: %s", errs, tc.want, tc.reason)
			}
			if tc.want && (!strings.Contains(errs[0].Error(), "tenant/prod") || !strings.Contains(errs[0].Error(), tc.cluster.Annotations["archelon.io/instance"])) {
				t.Errorf("got %v, want it to name the cluster and the instance", errs[0])
			}
		})
	}
}

func TestSayLeft(t *testing.T) {
	out := &bytes.Buffer{}
	u := &uninstaller{opts: &Options{}, out: out, self: instance.ID{Namespace: "archelon-system", Name: "archelon"}}
	clusters := []object{clusterHeldFor("ours", "archelon-system/archelon"), clusterHeldFor("theirs", "b/archelon")}
	for i := range 12 {
		clusters = append(clusters, clusterHeldFor(fmt.Sprintf("many-%02d", 11-i), "a/archelon"))
	}
	u.sayLeft(clusters)
	want := "Left to instance a/archelon, which works on them: CAPI clusters tenant/many-00, tenant/many-01, tenant/many-02, tenant/many-03, tenant/many-04, " +
		"tenant/many-05, tenant/many-06, tenant/many-07, tenant/many-08, tenant/many-09 and 2 more\n" +
		"Left to instance b/archelon, which works on them: CAPI clusters tenant/theirs\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
