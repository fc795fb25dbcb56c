package rancher

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/outcome"
)

// wantProblem fails the test unless err is a Problem of the kind and reason with a message.
func wantProblem(t *testing.T, err error, kind outcome.Kind, reason string) {
	t.Helper()
	var problem *outcome.Problem
	if !errors.As(err, &problem) {
		t.Fatalf("want a Problem with reason %s, got %v", reason, err)
	}
	if problem.Kind != kind || problem.Reason != reason {
		t.Errorf("want %s %s, got %s %s: %v", kind, reason, problem.Kind, problem.Reason, err)
	}
	// A sentence that follows begins with what to do, perhaps behind a time.
	remedy := regexp.MustCompile(`\. (After [^,]+, )?(check|Check|Correct|delete|Delete|Renew|Set|Raise|Nothing)\b`)
	if !remedy.MatchString(problem.Message) && kind != outcome.KindPoll {
		t.Errorf("the message names no remedy: %s", problem.Message)
	}
}

func setting(name, value, byDefault string) *managementv3.Setting {
	return &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, Default: byDefault}
}

func settingsOf(t *testing.T, objects ...client.Object) *Settings {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := managementv3.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	settings, err := NewSettings(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build())
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

func TestValue(t *testing.T) {
	settings := settingsOf(t, setting("both", "value", "default"), setting("default-only", "", "default"), setting("neither", "", ""))
	for name, want := range map[string]string{"both": "value", "default-only": "default", "neither": ""} {
		got, err := settings.Value(t.Context(), name)
		if err != nil || got != want {
			t.Errorf("setting %s: want %q, got %q, %v", name, want, got, err)
		}
	}
	_, err := settings.Value(t.Context(), "absent")
	wantProblem(t, err, outcome.KindWait, "RancherSettingsUnavailable")
}

func TestServerURL(t *testing.T) {
	cases := map[string]struct {
		reason string
		value  string
		want   string
		refuse string
	}{
		"Valid":    {reason: "an https URL of a host is taken as it is", value: "https://rancher.example.com", want: "https://rancher.example.com"},
		"Spaces":   {reason: "people paste URLs with spaces around", value: " https://rancher.example.com:8443\n", want: "https://rancher.example.com:8443"},
		"Empty":    {reason: "a fresh Rancher has no URL yet", value: "", refuse: "ServerURLMissing"},
		"Plain":    {reason: "a token must not cross the network in the clear", value: "http://rancher.example.com", refuse: "ServerURLInvalid"},
		"NoHost":   {reason: "an agent needs a host", value: "https://", refuse: "ServerURLInvalid"},
		"NoScheme": {reason: "a host alone is no URL", value: "rancher.example.com", refuse: "ServerURLInvalid"},
		"Password": {reason: "user information is not Rancher's", value: "https://admin:s3cret@rancher.example.com", refuse: "ServerURLInvalid"},
		"Garbage":  {reason: "what cannot be parsed is refused", value: "https://s3cret\x7f", refuse: "ServerURLInvalid"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := settingsOf(t, setting("server-url", tc.value, "")).ServerURL(t.Context())
			if tc.refuse != "" {
				wantProblem(t, err, outcome.KindWait, tc.refuse)
				if strings.Contains(err.Error(), "s3cret") {
					t.Errorf("%s: the message holds a password: %v", tc.reason, err)
				}
				return
			}
			if err != nil || got.String() != tc.want {
				t.Errorf("%s: want %s, got %v, %v", tc.reason, tc.want, got, err)
			}
		})
	}
}

func TestTrust(t *testing.T) {
	ca := newAuthority(t).pem
	other := newAuthority(t).pem
	cases := map[string]struct {
		reason      string
		mode        string
		defaultMode string
		cacerts     string
		refuse      string
		private     bool
	}{
		"Strict":             {reason: "strict trusts cacerts only", mode: "strict", cacerts: ca, private: true},
		"StrictByDefault":    {reason: "a mode that nobody set has its default", defaultMode: "strict", cacerts: ca, private: true},
		"StrictWithoutCA":    {reason: "without cacerts Rancher is publicly trusted", mode: "strict"},
		"StrictWithBlankCA":  {reason: "white space is no CA", mode: "strict", cacerts: "\n"},
		"StrictWithBrokenCA": {reason: "strict cannot fall back from a CA that is there", mode: "strict", cacerts: "no PEM", refuse: "CACertsInvalid"},
		"SystemStore":        {reason: "system-store does not use cacerts", mode: "system-store", cacerts: ca},
		"SystemStoreBroken":  {reason: "what is not used cannot be wrong", mode: "system-store", cacerts: "no PEM"},
		"Unknown":            {reason: "a mode from the future is not guessed at", mode: "pinned", cacerts: ca, refuse: "AgentTLSModeInvalid"},
		"Empty":              {reason: "no mode is no mode", refuse: "AgentTLSModeInvalid"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			trust, err := settingsOf(t, setting("agent-tls-mode", tc.mode, tc.defaultMode), setting("cacerts", tc.cacerts, "")).Trust(t.Context())
			if tc.refuse != "" {
				wantProblem(t, err, outcome.KindWait, tc.refuse)
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if private := trust.pool() != nil; private != tc.private {
				t.Errorf("%s: want private CAs %t, got %t", tc.reason, tc.private, private)
			}
		})
	}

	a, b := mustTrust(t, "strict", ca), mustTrust(t, "strict", other)
	system := mustTrust(t, "system-store", ca)
	if a.Fingerprint() == b.Fingerprint() || a.Fingerprint() == system.Fingerprint() {
		t.Error("trusts in different CAs share a fingerprint, and so connections")
	}
	if system.Fingerprint() != mustTrust(t, "system-store", other).Fingerprint() {
		t.Error("a CA that is not used changes the fingerprint")
	}
	if a != mustTrust(t, "strict", ca) {
		t.Error("equal trusts do not compare equal")
	}
}

func mustTrust(t *testing.T, mode, cacerts string) Trust {
	t.Helper()
	trust, err := NewTrust(mode, cacerts)
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

func TestCAChecksum(t *testing.T) {
	// printf 'abc\n' | sha256sum
	const want = "edeaaff3f1774ad2888673770c6d64097e391bc362d7d6fb34982ddf0efd18cb"
	for _, cacerts := range []string{"abc", "abc\n"} {
		if got := mustTrust(t, "system-store", cacerts).CAChecksum(); got != want {
			t.Errorf("cacerts %q: want %s, got %s", cacerts, want, got)
		}
	}
	if got := mustTrust(t, "strict", "").CAChecksum(); got != "" {
		t.Errorf("empty cacerts: want no checksum, got %s", got)
	}
}

func TestReady(t *testing.T) {
	all := []client.Object{setting("server-url", "", ""), setting("cacerts", "", ""), setting("agent-tls-mode", "", "")}
	if err := settingsOf(t, all...).Ready(t.Context()); err != nil {
		t.Errorf("settings without values are readable all the same: %v", err)
	}
	for i := range all {
		without := append(append([]client.Object{}, all[:i]...), all[i+1:]...)
		wantProblem(t, settingsOf(t, without...).Ready(t.Context()), outcome.KindWait, "RancherSettingsUnavailable")
	}
}

func TestSettingsOfAFailingServer(t *testing.T) {
	broken := errors.New("etcd is down")
	reader := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
	})
	settings, err := NewSettings(reader)
	if err != nil {
		t.Fatal(err)
	}
	_, err = settings.ServerURL(t.Context())
	wantProblem(t, err, outcome.KindFail, "RancherSettingsUnavailable")
	if !errors.Is(err, broken) {
		t.Errorf("the cause is lost: %v", err)
	}
	if _, err := settings.Fingerprint(t.Context()); !errors.Is(err, broken) {
		t.Errorf("a fingerprint of settings that cannot be read: %v", err)
	}
}

func TestSettingsFingerprint(t *testing.T) {
	fingerprint := func(objects ...client.Object) string {
		got, err := settingsOf(t, objects...).Fingerprint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	base := fingerprint(setting("server-url", "https://a", ""), setting("cacerts", "x", ""))
	if base != fingerprint(setting("cacerts", "x", ""), setting("server-url", "", "https://a")) {
		t.Error("a default differs from a value")
	}
	for _, other := range [][]client.Object{
		{setting("server-url", "https://a", ""), setting("cacerts", "x", ""), setting("agent-tls-mode", "", "")}, // absent is not empty
		{setting("server-url", "https://b", ""), setting("cacerts", "x", "")},
		{setting("server-url", "https://a", ""), setting("cacerts", "y", "")},
		{setting("server-url", "https://a", ""), setting("cacerts", "x", ""), setting("agent-tls-mode", "", "strict")},
	} {
		if base == fingerprint(other...) {
			t.Errorf("a changed setting does not change the fingerprint: %v", other)
		}
	}
}
