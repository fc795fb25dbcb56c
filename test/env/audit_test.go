package env

import (
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
