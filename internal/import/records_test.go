package importer

import "testing"

func TestSplitID(t *testing.T) {
	r := &Reconciler{Active: testStrategy{kind: "v3"}, Others: []Strategy{testStrategy{kind: "v1"}}}
	for name, test := range map[string]struct {
		reason, id string
		kind, want string
	}{
		"Active":    {reason: "of the active strategy", id: "v3/c-abcde", kind: "v3", want: "c-abcde"},
		"Other":     {reason: "of another strategy", id: "v1/prod-capi", kind: "v1", want: "prod-capi"},
		"None":      {reason: "the annotation is not there"},
		"NoName":    {reason: "a kind alone", id: "v3/"},
		"NoKind":    {reason: "a name alone", id: "prod-capi"},
		"Unknown":   {reason: "a kind that is not known", id: "v2/prod-capi"},
		"Namespace": {reason: "a slash cannot be in a name", id: "v1/tenant-a/prod-capi"},
		"Percent":   {reason: "nor can a percent sign", id: "v1/prod%2fcapi"},
		"Parent":    {reason: "nor can it be a way up", id: "v1/.."},
	} {
		t.Run(name, func(t *testing.T) {
			strategy, got, ok := r.splitID(test.id)
			if ok != (test.want != "") || got != test.want || ok && strategy.Kind() != test.kind {
				t.Errorf("splitID(%q) = %v, %q, %t; want a %s named %q: %s", test.id, strategy, got, ok, test.kind, test.want, test.reason)
			}
		})
	}
}
