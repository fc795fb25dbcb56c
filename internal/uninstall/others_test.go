package uninstall

import (
	"bytes"
	"fmt"
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

// otherInstance is one that is registered for some namespaces, for all if there are none.
func otherInstance(t *testing.T, runs bool, namespaces ...string) registered {
	t.Helper()
	scope, err := shard.New(namespaces, nil)
	if err != nil {
		t.Fatal(err)
	}
	return registered{"other-system/archelon": {Claim: instance.Claim{Scope: scope}, Alive: runs}}
}

// A cluster is left to others only where one works on it or comes back to it: nothing is left to nobody.
func TestMine(t *testing.T) {
	const self, other = "archelon-system/archelon", "other-system/archelon"
	for name, tc := range map[string]struct {
		reason string
		by     string
		others registered
		want   bool
	}{
		"Ours":       {"it is let go", self, nil, true},
		"Nobodys":    {"it is let go as well", "", nil, true},
		"Works":      {"the other one sees to it", other, otherInstance(t, true, "tenant"), false},
		"Everywhere": {"the other one works in all namespaces", other, otherInstance(t, true), false},
		"Away":       {"the other one names the namespace and comes back to it", other, otherInstance(t, false, "tenant"), false},
		"Dead":       {"the other one names nothing, so whoever is there has it", other, otherInstance(t, false), true},
		"Gone":       {"nobody would see to it", other, nil, true},
		"Moved":      {"the other one does not work there any more", other, otherInstance(t, true, "blue"), true},
		"Rubbish":    {"somebody edited it, which must not keep the release from being uninstalled", "../..", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			u := &uninstaller{opts: &Options{}, self: instance.ID{Namespace: "archelon-system", Name: "archelon"}, others: tc.others}
			cluster := clusterHeldFor("prod", tc.by)
			if got := u.mine(&cluster); got != tc.want {
				t.Errorf("got %t, want %t: %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestSayLeft(t *testing.T) {
	out := &bytes.Buffer{}
	u := &uninstaller{opts: &Options{}, out: out, self: instance.ID{Namespace: "archelon-system", Name: "archelon"},
		others: registered{"a/archelon": {Alive: true}, "b/archelon": {Alive: true}}}
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
