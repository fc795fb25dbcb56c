package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/archelon-io/archelon/internal/instance"
)

func TestOverlapMessage(t *testing.T) {
	self := instance.ID{Namespace: "one", Name: "archelon"}
	rivals := make([]instance.ID, 256)
	for i := range rivals {
		rivals[i] = instance.ID{Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%s%03d", strings.Repeat("i", 60), i)}
	}
	for name, tc := range map[string]struct {
		reason string
		rivals []instance.ID
		want   string
	}{
		"One": {
			reason: "it is named", rivals: []instance.ID{{Namespace: "two", Name: "archelon"}},
			want: "and two/archelon claims it as well",
		},
		"Five": {reason: "all are named", rivals: rivals[:5], want: rivals[4].String() + " claims it as well"},
		"Many": {reason: "the rest is counted", rivals: rivals, want: rivals[4].String() + " and 251 more claims it as well"},
	} {
		t.Run(name, func(t *testing.T) {
			got := overlapMessage(self, tc.rivals)
			if !strings.Contains(got, tc.want) || !strings.HasPrefix(got, "Instance one/archelon works on this cluster") {
				t.Errorf("%s: got %q, want %q in it", tc.reason, got, tc.want)
			}
			if len(got) > 1024 {
				t.Errorf("%s: %d bytes", tc.reason, len(got))
			}
		})
	}
}
