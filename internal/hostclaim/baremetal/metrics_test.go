package baremetal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/test/simulation"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := hostclaim.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	server := simulation.NewServer(simScheme())
	for name, change := range map[string]func(*metal3v1.HostClaim){
		"new": nil, "deleting": deleted,
		"waiting-1": says("Associated", "False", "NoBareMetalHost"), "waiting-2": says("Associated", "False", "NoBareMetalHost"),
		"bound": says("Associated", "True", "BareMetalHostAssociated"), "lost": says("Associated", "False", "HostLost"),
		"withdrawn": says("Associated", "True", "PermissionWithdrawn"), "host deleting": says("Associated", "True", "HostDeleting"),
		"apart":   says("RemoteSynced", "False", "RemoteUnreachable"),
		"dropped": all(says("Associated", "True", "BareMetalHostAssociated"), says("Ready", "False", "FieldsDropped")),
		"other":   says("Associated", "False", "OfSomebodyElse"),
	} {
		claim := claimWith(change)
		claim.Name = name
		server.Put(claim)
	}
	api := server.Client(nil)
	r := &Reconciler{
		Client: api, Recorder: simulation.Silent{}, Metrics: metrics,
		Read: Readers{Claims: []client.Reader{api}, Objects: api, Metadata: api, Live: api},
	}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	metrics.Bound("baremetal", 2*time.Second)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			value := metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			name := strings.TrimPrefix(family.GetName(), "archelon_hostclaim_")
			got = append(got, fmt.Sprint(name, labels, value))
		}
	}
	slices.Sort(got)
	want := []string{
		"bind_seconds[baremetal] 1", "claims[baremetal a apart] 1", "claims[baremetal a bound] 3", "claims[baremetal a deleting] 1", "claims[baremetal a dropped] 1", "claims[baremetal a lost] 1",
		"claims[baremetal a new] 2", "claims[baremetal a waiting] 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestCompleteRejectsWhatIsMissing(t *testing.T) {
	api := simulation.NewServer(simScheme()).Client(nil)
	whole := Readers{Claims: []client.Reader{api}, Objects: api, Metadata: api, Live: api}
	for name, r := range map[string]*Reconciler{
		"Client":   {Recorder: simulation.Silent{}, Read: whole},
		"Recorder": {Client: api, Read: whole},
		"Claims":   {Client: api, Recorder: simulation.Silent{}, Read: Readers{Objects: api, Metadata: api, Live: api}},
		"Live":     {Client: api, Recorder: simulation.Silent{}, Read: Readers{Claims: []client.Reader{api}, Objects: api, Metadata: api}},
	} {
		if r.complete() == nil {
			t.Errorf("%s: it is complete", name)
		}
	}
}
