package capi

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/providers/capi/connection"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// kubeconfigOf returns the text of a kubeconfig with a cluster and a user.
func kubeconfigOf(cluster, user string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: it\n" +
		"contexts: [{name: it, context: {cluster: it, user: it}}]\nclusters: [{name: it, cluster: {" + cluster + "}}]\nusers: [{name: it, user: {" + user + "}}]\n"
}

const (
	anyServer = `server: "https://127.0.0.1:1"`
	anyUser   = "token: x"
)

// A slip in the Secret does not end a connection that works, and what corrects it is taken over without a gap.
func TestSlipsKeepTheConnection(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		slip   func(*fleet)
		says   string
	}{
		"Deleted": {
			reason: "A Secret can be deleted and written again",
			slip:   func(f *fleet) { f.give("one", nil) }, says: "No Secret for one",
		},
		"NoYAML": {
			reason: "Somebody wrote something else",
			slip:   func(f *fleet) { f.write("{{") }, says: "is not YAML",
		},
		"Half": {
			reason: "A write was cut off",
			slip: func(f *fleet) {
				half, _, _ := strings.Cut(kubeconfigOf(anyServer, anyUser), "users:")
				f.write(half)
			},
			says: "lacks the user",
		},
		"NoCredentials": {
			reason: "The token is not there yet",
			slip:   func(f *fleet) { f.write(kubeconfigOf(anyServer, "")) }, says: "has no credentials",
		},
		"DoesNotConnect": {
			reason: "The address is wrong",
			slip:   func(f *fleet) { f.give("one", blackHole(f.t)) }, says: "did not answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := newFleet(t, func(o *Options) {
				dialsBriefly(o)
				o.Timing.Rotation = long
			}), newServer(t, "a", "b")
			put(t, s, "first", "1")
			one := f.add("one", s.access("a"))
			eventually(t, "the controller has begun", func() bool { return f.aware.has(one, "first", "1") })
			f.becomes(one, Engaged, EngagedReason)
			until := time.Now().Add(long)
			tc.slip(f)
			f.becomes(one, Degraded, RotationFailingReason)
			message := f.status(one).Message
			_, rest, _ := strings.Cut(message, "kept until ")
			at, err := time.Parse(time.RFC3339, strings.SplitAfter(rest+"Z", "Z")[0])
			if err != nil || at.Before(until.Add(-time.Second)) || at.After(time.Now().Add(long)) {
				t.Errorf("%s: it does not say until when the connection is kept: %s", tc.reason, message)
			}
			if !strings.Contains(message, tc.says) {
				t.Errorf("%s: it does not say what is wrong: %s", tc.reason, message)
			}
			s.probed(t, 2)
			put(t, s, "meanwhile", "2")
			eventually(t, "the watch goes on", func() bool { return f.aware.has(one, "meanwhile", "2") })
			if err := work(f, one); err != nil {
				t.Errorf("%s: the connection is not used: %v", tc.reason, err)
			}
			f.give("one", s.access("b"))
			f.becomes(one, Engaged, EngagedReason)
			if f.aware.count(one) != 1 {
				t.Errorf("%s: it was engaged %d times", tc.reason, f.aware.count(one))
			}
		})
	}
}

// What is refused for the sake of security ends the connection although there is time left.
func TestRefusalsEndTheConnection(t *testing.T) {
	t.Parallel()
	for reason, refused := range map[string]string{
		kubeconfig.ExecReason: kubeconfigOf(
			anyServer, "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch}"),
		kubeconfig.AuthProviderReason:  kubeconfigOf(anyServer, "auth-provider: {name: oidc}"),
		kubeconfig.FilePathReason:      kubeconfigOf(anyServer, "tokenFile: /var/run/secrets/token"),
		kubeconfig.ImpersonationReason: kubeconfigOf(anyServer, anyUser+", as: admin"),
		kubeconfig.InsecureReason:      kubeconfigOf(`server: "http://127.0.0.1:1"`, anyUser),
		kubeconfig.ProxyReason:         kubeconfigOf(anyServer+`, proxy-url: "unix:///var/run/proxy"`, anyUser),
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			f, s := newFleet(t, func(o *Options) { o.Timing.Rotation = long }), newServer(t, "a")
			one := f.add("one", s.access("a"))
			f.becomes(one, Engaged, EngagedReason)
			f.give("one", nil) // there is grace, which ends with the refusal
			f.becomes(one, Degraded, RotationFailingReason)
			f.write(refused)
			f.becomes(one, Disconnected, reason)
			eventually(t, "its connections are closed", func() bool { return s.open() == 0 })
		})
	}
}

// Nothing but the timer of the grace looks at the cluster: each other pause is far longer than the test waits.
func TestGraceEndsInTime(t *testing.T) {
	t.Parallel()
	nobody := newServer(t)
	for name, tc := range map[string]struct {
		slip   func(*fleet)
		reason string
	}{
		"Deleted":  {slip: func(f *fleet) { f.give("one", nil) }, reason: kubeconfig.MissingReason},
		"NoYAML":   {slip: func(f *fleet) { f.write("{{") }, reason: kubeconfig.InvalidReason},
		"Rejected": {slip: func(f *fleet) { f.give("one", nobody.access("a")) }, reason: connection.UnauthorizedReason},
		"DeletedAndThrottled": {
			slip: func(f *fleet) {
				f.mu.Lock()
				f.once, f.err = missing("No Secret for one"), apierrors.NewTooManyRequests("later", 1)
				f.mu.Unlock()
				f.changed("one")
			},
			reason: KubeconfigUnreadableReason,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := newFleet(t, func(o *Options) {
				retriesAfter(o, long)
				o.Timing.ProbeEvery, o.Timing.Rotation = long, 3*time.Second
			}), newServer(t, "a")
			put(t, s, "first", "1")
			one := f.add("one", s.access("a"))
			eventually(t, "the controller has begun", func() bool { return f.aware.has(one, "first", "1") })
			f.becomes(one, Engaged, EngagedReason)
			tc.slip(f)
			f.becomes(one, Disconnected, tc.reason)
			eventually(t, "its connections are closed", func() bool { return s.open() == 0 })
			if _, err := f.Get(t.Context(), one); !errors.Is(err, ErrNotConnected) {
				t.Errorf("Get: %v", err)
			}
			put(t, s, "meanwhile", "1")
			f.mu.Lock()
			f.err = nil
			f.mu.Unlock()
			f.give("one", s.access("a"))
			f.becomes(one, Engaged, EngagedReason)
			eventually(t, "what was missed is received", func() bool { return f.aware.has(one, "meanwhile", "1") })
			if f.aware.count(one) != 1 {
				t.Errorf("it was engaged %d times", f.aware.count(one))
			}
		})
	}
}

// Who revokes the credentials in the workload cluster ends the connection, whatever time is left.
func TestRevokedCredentialsEndTheGrace(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]*rest.Config{"Deleted": nil, "DoesNotConnect": blackHole(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := newFleet(t, func(o *Options) {
				dialsBriefly(o)
				o.Timing.Rotation = long
			}), newServer(t, "a")
			one := f.add("one", s.access("a"))
			f.becomes(one, Engaged, EngagedReason)
			f.give("one", next)
			f.becomes(one, Degraded, RotationFailingReason)
			s.accept("b")
			eventually(t, "it is disconnected", func() bool { return f.status(one).State == Disconnected })
			eventually(t, "its connections are closed", func() bool { return s.open() == 0 })
		})
	}
}
