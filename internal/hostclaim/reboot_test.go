package hostclaim

import (
	"fmt"
	"strings"
	"testing"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

func TestReboots(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"none":                   {map[string]string{"reboot.metal3.iox": "", "host.metal3.io/x": ""}, "map[]"},
		"plain":                  {map[string]string{"reboot.metal3.io": ""}, "once  map[]"},
		"the proposal's":         {map[string]string{"host.metal3.io/reboot": `{"mode":"soft"}`}, `once {"mode":"soft"} map[]`},
		"what Metal3 knows only": {map[string]string{"reboot.metal3.io": `{"mode":"hard","force":true}`}, `once {"mode":"hard"} map[]`},
		"no JSON":                {map[string]string{"reboot.metal3.io": "{{"}, "once  map[]"},
		"another mode":           {map[string]string{"reboot.metal3.io": `{"mode":"x\"y"}`}, "once  map[]"},
		"a long value":           {map[string]string{"reboot.metal3.io": strings.Repeat(" ", 300) + `{"mode":"soft"}`}, "once  map[]"},
		"holds": {
			map[string]string{"reboot.metal3.io/a": "x", "host.metal3.io/reboot-b": `{"mode":"hard"}`, "reboot.metal3.io/": ""},
			`map[reboot.metal3.io/a: reboot.metal3.io/b:{"mode":"hard"}]`,
		},
		"names that no annotation of a host can have": {
			map[string]string{"host.metal3.io/reboot--x": "", "host.metal3.io/reboot-": "", "host.metal3.io/reboot-.x": "", "host.metal3.io/reboot-y_": ""},
			"map[]",
		},
	} {
		asked := RebootsOf(&metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}})
		got := fmt.Sprint(asked.holds)
		if asked.once != nil {
			got = "once " + *asked.once + " " + got
		}
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// A host is not told to reboot again as long as its claim has not heard that it was told.
func TestRebootIsToldOnce(t *testing.T) {
	host := &bmov1.BareMetalHost{}
	mode := ""
	for _, step := range []struct {
		asked       Reboots
		told, knows bool
	}{
		{Reboots{once: &mode}, true, true}, {Reboots{once: &mode}, false, true}, {Reboots{}, false, false},
		{Reboots{once: &mode}, true, true},
	} {
		host.Annotations = step.asked.Tell(host.Annotations)
		_, told := host.Annotations["reboot.metal3.io"]
		_, knows := host.Annotations[metal3v1.RebootingAnnotation]
		if told != step.told || knows != step.knows {
			t.Errorf("asked %v, got %v", step.asked, host.Annotations)
		}
		delete(host.Annotations, "reboot.metal3.io") // Metal3 has done it.
	}
}
