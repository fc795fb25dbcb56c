package capi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// answersOnly has a server answer some requests, and take the others without a word.
func answersOnly(s *server, some func(*http.Request) bool) {
	s.fail(func(r *http.Request) int {
		if r.URL.Path == "/version" || some(r) {
			return 0
		}
		return -1
	})
}

func nothingElse(*http.Request) bool { return false }

// A cluster that answers probes and nothing else is not engaged, however long it takes.
func TestAClusterThatHoldsEverythingIsNotEngaged(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "a")
	answersOnly(s, nothingElse)
	one := f.add("one", s.access("a"))
	f.becomes(one, Connecting, SyncingReason)
	s.probed(t, 5)
	f.becomes(one, Connecting, SyncingReason)
	answersOnly(s, func(*http.Request) bool { return true })
	s.CloseClientConnections()
	f.becomes(one, Engaged, EngagedReason)
}

// One kind that does not come within its time is named, and the other ones work.
func TestAKindThatDoesNotSyncInTimeIsNamed(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, func(o *Options) { o.Timing.Sync = 2 * time.Second }), newServer(t, "a")
	answersOnly(s, func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/nodes") })
	if err := f.IndexField(t.Context(), &corev1.Node{}, "name", func(client.Object) []string { return nil }); err != nil {
		t.Fatal(err)
	}
	one := f.add("one", s.access("a"))
	f.becomes(one, Degraded, KindTimeoutReason)
	if message := f.status(one).Message; !strings.HasSuffix(message, ": secrets (KindTimeout)") {
		t.Errorf("got %q, want the one kind that does not come", message)
	}
	answersOnly(s, func(*http.Request) bool { return true })
	s.CloseClientConnections()
	f.becomes(one, Engaged, EngagedReason)
}

// A server that takes a watch and does not begin to answer is given up like one that does not answer any other request.
func TestWatchesHaveABoundOnTheirHeaders(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, func(o *Options) { o.Timing.Request = time.Second }), newServer(t, "a")
	put(t, s, "first", "1")
	answersOnly(s, func(r *http.Request) bool { return r.URL.Query().Get("watch") == "" })
	one := f.add("one", s.access("a"))
	f.becomes(one, Degraded, KindTimeoutReason)
	answersOnly(s, func(*http.Request) bool { return true })
	f.becomes(one, Engaged, EngagedReason)
	eventually(t, "the controller sees what was there", func() bool { return f.aware.has(one, "first", "1") })
}

// What is too large is reported, and asked for once: another connection to the same server does not ask again, another
// server is asked.
func TestAListThatIsTooLargeIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, streams := range map[string]bool{"Stream": true, "List": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s, other := newFleet(t, func(o *Options) { o.MaxListBytes = 64 << 10 }), newServer(t, "a", "b"), newServer(t, "a")
			put(t, s, "large", strings.Repeat("x", 128<<10))
			if !streams {
				s.fail(func(r *http.Request) int {
					if r.URL.Query().Get("sendInitialEvents") == "true" {
						return http.StatusUnprocessableEntity
					}
					return 0
				})
			}
			one := f.add("one", s.access("a"))
			f.becomes(one, Degraded, KindTooLargeReason)
			if message := f.status(one).Message; !strings.Contains(message, "secrets (KindTooLarge)") {
				t.Errorf("the message does not name the kind: %s", message)
			}
			asked := s.listed()
			f.give("one", s.access("b"))
			eventually(t, "the kubeconfig is replaced", func() bool { return s.sent("b") > 0 })
			s.probed(t, 20) // informers try again after less than one of them
			if again := s.listed(); again != asked {
				t.Errorf("it was asked for %d times more", again-asked)
			}
			f.give("one", other.access("a"))
			f.becomes(one, Engaged, EngagedReason)
		})
	}
}

// The earlier kubeconfig is still used, and no controller works with the cluster.
func TestGraceOfAClusterThatIsNotEngaged(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, func(o *Options) { o.Timing.Rotation = long }), newServer(t, "a")
	f.aware.fails(errors.New("the scheme lacks a kind"))
	one := f.add("one", s.access("a"))
	f.becomes(one, Connecting, EngagementFailingReason)
	f.give("one", nil)
	f.becomes(one, Connecting, RotationFailingReason)
}

// asking is a mapper that asks the server for its kinds, as the usual one does, whatever the caller's patience is.
type asking struct {
	meta.RESTMapper
	config *rest.Config
	http   *http.Client
}

// RESTMapping implements meta.RESTMapper.
func (a asking) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	response, err := a.http.Get(a.config.Host + "/apis") //nolint:noctx // as discovery does
	if err != nil {
		return nil, err
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	return a.RESTMapper.RESTMapping(kind, versions...)
}

func asks(o *Options) {
	o.ClusterOptions = append(o.ClusterOptions, func(o *cluster.Options) {
		o.MapperProvider = func(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
			known, err := mapper(config, client)
			return asking{known, config, client}, err
		}
	})
}

// A cluster that does not say which kinds it has takes no place of others, also if a field is indexed.
func TestTheSearchForKindsTakesNoPlace(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(o *Options) {
		asks(o)
		o.Concurrency = 1
	})
	holds, well := newServer(t, "a"), newServer(t, "a")
	put(t, well, "first", "1")
	answersOnly(holds, nothingElse)
	if err := f.IndexField(t.Context(), &corev1.Secret{}, "name", func(object client.Object) []string { return []string{object.GetName()} }); err != nil {
		t.Fatal(err)
	}
	f.becomes(f.add("holds", holds.access("a")), Connecting, SyncingReason)
	name := f.add("well", well.access("a"))
	f.becomes(name, Engaged, EngagedReason)
	c, err := f.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	found := &corev1.SecretList{}
	if err := c.GetCache().List(t.Context(), found, client.MatchingFields{"name": "first"}); err != nil || len(found.Items) != 1 {
		t.Errorf("the index found %d, %v", len(found.Items), err)
	}
}

// What a cluster does not answer ends with the connection, so that the end of the provider does not wait for it.
func TestShutdownCutsTheConnectionFirst(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, asks), newServer(t, "a")
	answersOnly(s, nothingElse)
	one := f.add("one", s.access("a"))
	f.becomes(one, Connecting, SyncingReason)
	m := f.member(one)
	f.stop()
	if !closed(m.done) {
		t.Error("the cluster was left behind")
	}
}

// Whatever changes who asks, and on which way, is another access.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	wraps := func(rt http.RoundTripper) http.RoundTripper { return rt }
	dials := func(name string) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New(name) }
	}
	one, other, transport := dials("one"), dials("other"), &http.Transport{}
	base := func() *rest.Config {
		return &rest.Config{
			Host: "https://a", BearerToken: "t", Dial: one, WrapTransport: wraps, Transport: transport,
			Impersonate:  rest.ImpersonationConfig{UserName: "u", Groups: []string{"g"}, Extra: map[string][]string{"a": {"1"}, "b": {"2"}}},
			ExecProvider: &clientcmdapi.ExecConfig{Command: "c", Args: []string{"x"}, Env: []clientcmdapi.ExecEnvVar{{Name: "n", Value: "v"}}},
		}
	}
	want := fingerprintOf(base())
	for range 20 {
		if got := fingerprintOf(base()); got != want {
			t.Fatal("the same access has another fingerprint")
		}
	}
	for name, change := range map[string]func(*rest.Config){
		"Token":       func(c *rest.Config) { c.BearerToken = "other" },
		"User":        func(c *rest.Config) { c.Impersonate.UserName = "other" },
		"UID":         func(c *rest.Config) { c.Impersonate.UID = "other" },
		"Groups":      func(c *rest.Config) { c.Impersonate.Groups = []string{"g", "h"} },
		"Extra":       func(c *rest.Config) { c.Impersonate.Extra = map[string][]string{"a": {"1"}, "b": {"3"}} },
		"Nobody":      func(c *rest.Config) { c.Impersonate = rest.ImpersonationConfig{} },
		"Transport":   func(c *rest.Config) { c.Transport = &http.Transport{} },
		"NoTransport": func(c *rest.Config) { c.Transport = nil },
		"Wrap":        func(c *rest.Config) { c.Wrap(wraps) },
		"NoWrap":      func(c *rest.Config) { c.WrapTransport = nil },
		"Dial":        func(c *rest.Config) { c.Dial = other },
		"Program":     func(c *rest.Config) { c.ExecProvider.Args = []string{"y"} },
		"Environment": func(c *rest.Config) { c.ExecProvider.Env[0].Value = "w" },
		"Protocols":   func(c *rest.Config) { c.NextProtos = []string{"http/1.1"} },
	} {
		changed := base()
		change(changed)
		if fingerprintOf(changed) == want {
			t.Errorf("%s: another access has the same fingerprint", name)
		}
	}
}

// A GetSecret that begins to impersonate another user is obeyed, although the token is the same.
func TestAnotherUserIsUsed(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "a")
	f.becomes(f.add("one", s.access("a")), Engaged, EngagedReason)
	access := s.access("a")
	access.Impersonate.UserName = "viewer"
	f.give("one", access)
	eventually(t, "requests are made as the other user", func() bool { return s.impersonated("viewer") })
}
