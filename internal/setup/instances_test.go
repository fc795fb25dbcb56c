package setup

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/shard"
)

// An instance without a Lease looks for others until it has an answer: a moment's failure costs no restart.
func TestAloneAsksAgain(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]string{
		"Alone": "", "BesideAnother": `{"metadata":{"name":"other-leader-election","namespace":"system",
			"labels":{"archelon.io/instance":"other"},"annotations":{"archelon.io/scope":"*"}},"spec":{"holderIdentity":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if asked.Add(1) == 1 {
					w.WriteHeader(http.StatusForbidden) // client-go does not repeat it
					_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
					return
				}
				_, _ = io.WriteString(w, `{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","items":[`+lease+`]}`)
			}))
			defer api.Close()
			p := &process{config: &rest.Config{Host: api.URL}, opts: &options.Options{LeaderElectNamespace: "system"}, logger: logr.Discard()}
			waited := 0
			err := p.alone(t.Context(), instance.Claim{}, func() { waited++ })
			if errors.Is(err, errNotAlone) != (lease != "") || lease == "" && err != nil || asked.Load() != 2 || waited != 1 {
				t.Errorf("got %v after %d requests and %d waits", err, asked.Load(), waited)
			}
		})
	}
}

// Only namespaces that were given up are asked about: an instance that excludes hundreds is not to ask for each of them
// whenever it starts.
func TestGiven(t *testing.T) {
	t.Parallel()
	scope := func(namespaces, excluded string) shard.Scope {
		t.Helper()
		s, err := shard.New(strings.Fields(namespaces), strings.Fields(excluded))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, tc := range map[string]struct {
		before, now shard.Scope
		excluded    string
		want        string
		leaving     string
	}{
		"Same":          {scope("", "a b"), scope("", "a b"), "a b", "", ""},
		"FirstStart":    {scope("", "a"), scope("", "a"), "a", "", ""},
		"ExcludesMore":  {scope("", "a"), scope("", "a b"), "a b", "b", ""},
		"ExcludesSome":  {scope("", ""), scope("", "b a"), "b a", "a b", ""},
		"NamesFewer":    {scope("a b", ""), scope("a", ""), "", "b", ""},
		"NamesOthers":   {scope("a b", ""), scope("", "c"), "c", "", ""},
		"NamedExcluded": {scope("a b", ""), scope("", "b c"), "b c", "b", ""},
		"Died":          {scope("", "a b"), scope("", "a b"), "a b", "b", "b"},
		"TakenBack":     {scope("", "a b"), scope("", "a"), "a", "", "b"},
		"Grows":         {scope("a", ""), scope("", ""), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := instance.Registered{Claim: instance.Claim{Scope: tc.before}, Leaving: strings.Fields(tc.leaving)}
			if got := Given(before, tc.now, strings.Fields(tc.excluded)); !slices.Equal(got, strings.Fields(tc.want)) {
				t.Errorf("got %v, want %q", got, tc.want)
			}
		})
	}
}
