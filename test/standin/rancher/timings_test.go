package rancher_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

func TestTimingsJSON(t *testing.T) {
	for name, want := range map[string]rancher.Timings{
		"Default": rancher.DefaultTimings(),
		"Rancher": rancher.RancherTimings(),
		"None":    {},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(want)
			if err != nil {
				t.Fatalf("Marshal(): %v", err)
			}
			got := rancher.Timings{Write: time.Hour, Poll: time.Hour}
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatalf("Unmarshal(%s): %v", raw, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("What is written must be read, each field of it.\n-want, +got:\n%s", diff)
			}
		})
	}
}

func TestTimingsMerge(t *testing.T) {
	merged := rancher.DefaultTimings()
	merged.Connect, merged.URL, merged.AgentRetry = 3*time.Second, 0, 90*time.Millisecond
	for name, tc := range map[string]struct {
		reason  string
		raw     string
		want    rancher.Timings
		wantErr bool
	}{
		"Some": {
			reason: "What is not named keeps its default.",
			raw:    `{"connect":"3s","url":"0s","agentRetry":"90ms"}`,
			want:   merged,
		},
		"Unknown": {
			reason:  "A misspelt name would otherwise go unnoticed, and nothing may be half done.",
			raw:     `{"connect":"3s","conect":"3s"}`,
			want:    rancher.DefaultTimings(),
			wantErr: true,
		},
		"Number":   {reason: "A number has no unit.", raw: `{"connect":3}`, want: rancher.DefaultTimings(), wantErr: true},
		"Negative": {reason: "Nothing happens before its cause.", raw: `{"connect":"-3s"}`, want: rancher.DefaultTimings(), wantErr: true},
		"List":     {reason: "Timings are an object.", raw: `[]`, want: rancher.DefaultTimings(), wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := rancher.DefaultTimings()
			err := json.Unmarshal([]byte(tc.raw), &got)
			if (err != nil) != tc.wantErr {
				t.Errorf("%s\nUnmarshal(%s): want an error: %t, got %v", tc.reason, tc.raw, tc.wantErr, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
