package importer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
)

func TestFormsOfDisplayNames(t *testing.T) {
	long := func(last string) *clusterv1.Cluster {
		return testCluster(func(c *clusterv1.Cluster) {
			c.Namespace, c.Name = strings.Repeat("a", 63), strings.Repeat("b", 62)+last
		})
	}
	if got := []string{NameForm.Of(testCluster()), NamespaceNameForm.Of(testCluster()), DisplayNameForm("").Of(testCluster())}; !cmp.Equal(
		got, []string{"prod", "tenant-prod", "prod"}) {
		t.Errorf("got %q", got)
	}
	one, two := NamespaceNameForm.Of(long("1")), NamespaceNameForm.Of(long("2"))
	if one == two || one != NamespaceNameForm.Of(long("1")) || len(validation.IsDNS1123Label(one)) > 0 {
		t.Errorf("long names are %q and %q, which have to differ, to stay as they are, and to fit", one, two)
	}
}

// Whoever has the longer name of another's cluster has it first.
func TestANewRecordGetsTheFormThatIsChosen(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		others []*rancher.NamedCluster
		kind   outcome.Kind
	}{
		"NameTaken": {reason: "the name alone is another's", others: []*rancher.NamedCluster{v3Named("c-other", "prod", 0)}, kind: outcome.KindDone},
		"Ambiguous": {reason: "prod in tenant-a is a-prod in tenant", others: []*rancher.NamedCluster{v3Named("c-other", "Tenant-Prod", 0)}, kind: outcome.KindStall},
	} {
		b := newBench(t, instance.Claim{})
		b.Active, b.DisplayName = namingV3{}, NamespaceNameForm
		b.named(t, tc.others...)
		cluster := testCluster()
		desired, err := b.desired(cluster, "c-new22")
		if err != nil {
			t.Fatal(err)
		}
		out := b.obey(t.Context(), seen(cluster), func(d *deciding) Decision { return d.claimDisplayName(desired) }).Outcome
		if out.Kind != tc.kind || tc.kind == outcome.KindStall && (out.Reason != "DisplayNameTaken" || !strings.Contains(out.Message, `"tenant-prod"`)) {
			t.Errorf("%s: %s: got %s %s %q", name, tc.reason, out.Kind, out.Reason, out.Message)
		}
	}
	got := (Rules{Active: namingV3{}, DisplayName: NamespaceNameForm}).wantedNameKeys(testCluster())
	if diff := cmp.Diff([]string{"prod", "tenant-prod"}, got); diff != "" {
		t.Errorf("what wakes the cluster (-want +got):\n%s", diff)
	}
}

// A Rancher cluster that keeps another form than the chosen one is found by no watch when its name is free.
func TestAKeptFormIsLookedAtAgain(t *testing.T) {
	for _, chosen := range []DisplayNameForm{NameForm, NamespaceNameForm} {
		b := newBench(t, instance.Claim{})
		b.Active, b.DisplayName = namingV3{}, chosen
		own := v3Named("c-abcde", "tenant-prod", time.Minute)
		own.UID, own.Owner = "record-1", "uid-1"
		b.named(t, own, v3Named("c-older", "tenant-prod", time.Hour))
		object := v3Record()
		object.Spec.DisplayName = "tenant-prod"
		object.Annotations = map[string]string{"archelon.io/display-name-form": "NamespaceName"}
		o := seen(testCluster(held), record{Object: object, strategy: namingV3{}}).withManagement(object)
		out := b.obey(t.Context(), o, (*deciding).checkDisplayName).Outcome
		want := map[DisplayNameForm]outcome.Kind{NameForm: outcome.KindPoll, NamespaceNameForm: outcome.KindStall}[chosen]
		if out.Reason != "DisplayNameTaken" || out.Kind != want {
			t.Errorf("with %s chosen: got %s %s, want %s", chosen, out.Kind, out.Reason, want)
		}
	}
}
