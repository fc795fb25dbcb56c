package importer

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeptOut(t *testing.T) {
	const prefixed = "archelon.io/imported"
	tests := map[string]struct {
		reason      string
		annotations map[string]string
		by          string
		unreadable  bool
		left        map[string]string
	}{
		"Nothing":      {reason: "nothing keeps it out", left: map[string]string{}},
		"Bare":         {reason: "presence counts", annotations: map[string]string{"imported": "false"}, by: "imported", left: map[string]string{}},
		"Prefixed":     {reason: "it says so", annotations: map[string]string{prefixed: "true"}, by: prefixed, left: map[string]string{}},
		"PrefixedWins": {reason: "it wins", annotations: map[string]string{prefixed: "false", "imported": "true"}, left: map[string]string{prefixed: "false"}},
		"Both":         {reason: "the one that wins is named", annotations: map[string]string{prefixed: "1", "imported": "true"}, by: prefixed, left: map[string]string{}},
		"Empty":        {reason: "an empty one is none", annotations: map[string]string{prefixed: "", "imported": "true"}, by: "imported", left: map[string]string{}},
		"Unreadable":   {reason: "nobody knows what was meant", annotations: map[string]string{prefixed: "maybe"}, unreadable: true, left: map[string]string{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			by, err := keptOut(tc.annotations)
			if by != tc.by || (err != nil) != tc.unreadable || isKeptOut(tc.annotations) != (tc.by != "" || tc.unreadable) {
				t.Errorf("%s: got %q, %v", tc.reason, by, err)
			}
			left := map[string]string{}
			maps.Copy(left, tc.annotations)
			letIn(left)
			if diff := cmp.Diff(tc.left, left); diff != "" {
				t.Errorf("what is left for the record that comes next (-want +got):\n%s", diff)
			}
		})
	}
}
