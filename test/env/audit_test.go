package env

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseAudit(t *testing.T) {
	cases := map[string]struct {
		reason  string
		log     string
		want    []string
		wantErr bool
	}{
		"Complete": {
			reason: "each line is an event",
			log:    `{"verb":"get"}` + "\n" + `{"verb":"list"}` + "\n",
			want:   []string{"get", "list"},
		},
		"HalfWritten": {
			reason: "the API server may be writing the last line just now",
			log:    `{"verb":"get"}` + "\n" + `{"verb":"li`,
			want:   []string{"get"},
		},
		"Broken": {
			reason:  "a complete line that is no event must not pass for no event",
			log:     `{"verb":` + "\n",
			wantErr: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			events, err := parseAudit([]byte(tc.log))
			if (err != nil) != tc.wantErr {
				t.Fatalf("%s: got error %v", tc.reason, err)
			}
			var got []string
			for _, event := range events {
				got = append(got, event.Verb)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// A test asks many times while the API server writes. Who lends a control plane sees what happens from then on.
func TestAuditEvents(t *testing.T) {
	plane := &ControlPlane{dir: t.TempDir(), opts: Options{Audit: true}}
	lent := plane
	steps := []struct {
		reason, written string
		lend            bool
		want            []string
	}{
		{reason: "what is there is read", written: `{"verb":"get"}` + "\n", want: []string{"get"}},
		{reason: "half a line is none", written: `{"verb":"li`, want: []string{"get"}},
		{reason: "its other half makes it one", written: `st"}` + "\n" + `{"verb":"watch"}` + "\n", want: []string{"get", "list", "watch"}},
		{reason: "what was before is of no concern to the next one", lend: true},
		{reason: "what comes then is", written: `{"verb":"patch"}` + "\n", want: []string{"patch"}},
		{reason: "nothing is read twice", want: []string{"patch"}},
	}
	for _, step := range steps {
		file, err := os.OpenFile(plane.auditLog(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(step.written); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if step.lend {
			if lent, err = plane.Lend("next", func() {}); err != nil {
				t.Fatal(err)
			}
		}
		events, err := lent.AuditEvents()
		if err != nil {
			t.Fatalf("%s: %v", step.reason, err)
		}
		var got []string
		for i := range events {
			got = append(got, events[i].Verb)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", step.reason, diff)
		}
	}
}
