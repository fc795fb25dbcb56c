package rancher

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/archelon-io/archelon/internal/outcome"
)

func TestReach(t *testing.T) {
	pings := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ping" || r.Header.Get("Authorization") != "" {
			http.NotFound(w, r)
			return
		}
		answer(http.StatusOK, "text/plain", []byte(pong))(w, r)
	}
	for name, tc := range map[string]struct {
		handler        http.HandlerFunc
		strangers      bool // a CA that is not Rancher's has signed the certificate
		reason, needle string
	}{
		"Rancher":  {handler: pings},
		"Stranger": {handler: pings, strangers: true, reason: "RancherTLSNotTrusted", needle: "is not signed by the CAs in Rancher's setting cacerts"},
		"NoRancher": {
			handler: answer(http.StatusOK, "text/html", []byte("<html>\x1b[2J")), reason: "ManifestUnexpectedStatus",
			needle: "Something other than Rancher answers at Rancher's server-url (HTTP status 200)",
		},
		"Away": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://"+r.Host+"/ping", http.StatusFound)
			},
			reason: "ManifestRedirected", needle: "redirects to another host or away from https",
		},
		"Slow": {
			handler: neverAnswer,
			reason:  "RancherTimeout", needle: "Rancher did not answer within",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newRancherServer(t, tc.handler)
			trust := server.trust(t)
			if tc.strangers {
				trust = mustTrust(t, TLSModeStrict, newAuthority(t).pem)
			}
			at, err := url.Parse(server.URL + "/some/path?token=secret")
			if err != nil {
				t.Fatal(err)
			}
			o := DownloaderOptions{}
			if tc.reason == "RancherTimeout" {
				o.Timeout = 500 * time.Millisecond
			}
			ends, err := newTestDownloader(t, o).Reach(t.Context(), at, trust)
			if tc.reason != "" {
				wantReachProblem(t, err, tc.reason, tc.needle)
			} else if left := time.Until(ends); err != nil || left <= 0 || left > time.Hour {
				t.Errorf("got %s, %v", left, err)
			}
		})
	}
}

func wantReachProblem(t *testing.T, err error, reason, needle string) {
	t.Helper()
	wantProblem(t, err, outcome.KindFail, reason)
	if err == nil || !strings.Contains(err.Error(), needle) || strings.Contains(err.Error(), "manifest") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}
