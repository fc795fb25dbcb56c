package setup

import (
	"strings"
	"testing"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/controller"
)

func TestDescriptionsAreComplete(t *testing.T) {
	gates, err := feature.NewGates()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range Controllers() {
		if c.Name == "" || names[c.Name] || c.Package == "" || c.Watches == nil || c.Setup == nil {
			t.Errorf("the description of %q is not complete, or another one has its name", c.Name)
		}
		names[c.Name] = true
		if _, known := gates.GetAll()[c.Gate]; c.Gate != "" && !known {
			t.Errorf("%s has gate %s, which is not in package feature", c.Name, c.Gate)
		}
	}
}

// A controller that is off costs nothing: it is not asked for permissions, and narrows no cache.
func TestOnlyWhatIsOnRuns(t *testing.T) {
	gates, err := feature.NewGates()
	if err != nil {
		t.Fatal(err)
	}
	all := []controller.Controller{{Name: "always"}, {Name: "gated", Gate: feature.ManagementV3Cluster}, {Name: "keeper", Isolated: true}}
	names := func(isolated bool) string {
		var on []string
		for _, c := range controller.On(all, gates, isolated) {
			on = append(on, c.Name)
		}
		return strings.Join(on, " ")
	}
	if got := names(false); got != "always" {
		t.Errorf("got %s", got)
	}
	if err := gates.Set("managementv3-cluster=true"); err != nil {
		t.Fatal(err)
	}
	if got := names(true); got != "always gated keeper" {
		t.Errorf("got %s", got)
	}
}
