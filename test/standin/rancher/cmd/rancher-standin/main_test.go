package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/test/standin/rancher"
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

func TestParseInCluster(t *testing.T) {
	f, err := parse([]string{
		"--in-cluster", "--listen=:8443", "--server-url=https://rancher.cattle-system", "--host=rancher", "--host=192.0.2.1",
		"--webhook-listen=:9443", "--webhook-service=cattle-system/rancher-webhook:443", `--timings={"cleanup":"3s"}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.controlListen != ":8080" || f.stateNamespace != "cattle-system" {
		t.Errorf("In a Pod it is controlled from outside and keeps its state: got %q and %q", f.controlListen, f.stateNamespace)
	}
	got, err := f.options(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := rancher.DefaultOptions(&rest.Config{})
	want.Listen, want.ServerURL, want.Hosts = ":8443", "https://rancher.cattle-system", []string{"rancher", "192.0.2.1"}
	want.WebhookListen, want.WebhookPort = ":9443", 443
	want.WebhookService = &types.NamespacedName{Namespace: "cattle-system", Name: "rancher-webhook"}
	want.StateNamespace, want.AgentImage, want.Timings.Cleanup = "cattle-system", "", 3*time.Second
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(logr.Logger{})); diff != "" {
		t.Errorf("Each flag is an option: -want, +got:\n%s", diff)
	}
	f, err = parse([]string{"--in-cluster", "--state-namespace=", "--control-listen=127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if f.controlListen != "127.0.0.1:1" || f.stateNamespace != "" {
		t.Errorf("What is said counts: got %q and %q", f.controlListen, f.stateNamespace)
	}
}

func TestOptionsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		args    []string
		wantErr string
	}{
		"Both":          {[]string{"--in-cluster", "--kubeconfig=m"}, "--kubeconfig is required, or --in-cluster"},
		"Timing":        {[]string{"--in-cluster", `--timings={"clean":"3s"}`}, `there is no timing "clean"`},
		"NoNamespace":   {[]string{"--in-cluster", "--webhook-service=rancher:443"}, "is not namespace/name:port"},
		"NoPort":        {[]string{"--in-cluster", "--webhook-service=ns/rancher"}, "is not namespace/name:port"},
		"PortTooLarge":  {[]string{"--in-cluster", "--webhook-service=ns/rancher:65536"}, "is not namespace/name:port"},
		"PortIsNoPort":  {[]string{"--in-cluster", "--webhook-service=ns/rancher:https"}, "is not namespace/name:port"},
		"PortIsNothing": {[]string{"--in-cluster", "--webhook-service=ns/:1"}, "is not namespace/name:port"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := parse(tc.args)
			if err == nil {
				_, err = f.options(&rest.Config{})
			}
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("want error %q, got %v", tc.wantErr, err)
			}
		})
	}
}

func TestControlServer(t *testing.T) {
	c, err := startControl(t.Context(), "127.0.0.1:0", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	defer c.stop()
	status := func(path string) int {
		recorder := httptest.NewRecorder()
		c.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
		return recorder.Code
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/control/down": 503} {
		if got := status(path); got != want {
			t.Errorf("Before the start nothing works but the proof of life: %s: want %d, got %d", path, want, got)
		}
	}
	c.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/control/down": http.StatusTeapot} {
		if got := status(path); got != want {
			t.Errorf("After the start: %s: want %d, got %d", path, want, got)
		}
	}
}
