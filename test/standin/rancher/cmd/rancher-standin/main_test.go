package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		args    []string
		want    flags
		wantErr string
	}{
		"defaults": {
			reason: "The newest Rancher is played on a free port.",
			args:   []string{"--kubeconfig=m"},
			want: flags{
				kubeconfig: "m", tokenMode: "placeholder", statusSubresource: true, strictImport: true,
				tlsMode: "strict", installCRDs: true, listen: "127.0.0.1:0", webhookListen: "127.0.0.1:0",
			},
		},
		"old": {
			reason: "Both switches of an old Rancher, and several workload clusters, can be given.",
			args:   []string{"--kubeconfig=m", "--token-mode=plain", "--status-subresource=false", "--workload=a=1", "--workload=b=2"},
			want: flags{
				kubeconfig: "m", tokenMode: "plain", strictImport: true, workloads: []string{"a=1", "b=2"},
				tlsMode: "strict", installCRDs: true, listen: "127.0.0.1:0", webhookListen: "127.0.0.1:0",
			},
		},
		"no management cluster": {
			reason:  "A default kubeconfig could be that of a real cluster.",
			wantErr: "--kubeconfig is required",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tc.args)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("%s\nparse(): want error %q, got %v", tc.reason, tc.wantErr, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s\nparse(): %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(flags{})); diff != "" {
				t.Errorf("%s\nparse(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestPlainLog(t *testing.T) {
	var out bytes.Buffer
	log := plainLog(&out)
	log.WithValues("cluster", "c-abcde").Info("agent connected", "workload", "one")
	log.V(1).Info("a detail")
	log.Error(errors.New("boom"), "Rancher failed")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i := range lines {
		_, lines[i], _ = strings.Cut(lines[i], "  ") // the time
	}
	want := []string{"agent connected  cluster=c-abcde  workload=one", "ERROR Rancher failed  error=boom"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("The log is for people: one line per change of the world.\n-want, +got:\n%s", diff)
	}
}
