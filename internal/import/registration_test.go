package importer

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
)

// registrationBench has a v3 Cluster, its registration and server-url.
type registrationBench struct {
	*bench
	cluster *managementv3.Cluster
	setting *managementv3.Setting
}

// newRegistrationBench returns one where the manifest URL of the registration leads to a server.
func newRegistrationBench(t *testing.T, filled string) *registrationBench {
	t.Helper()
	cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde"}}
	setting := &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: "server-url"}}
	token := &managementv3.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "c-abcde", Name: "default-token"}}
	token.Status.ManifestURL = filled + "/v3/import/{token}_c-abcde.yaml"
	b := newBench(t, instance.Claim{}, cluster, setting, token)
	var err error
	if b.Settings, err = rancher.NewSettings(b.Client); err != nil {
		t.Fatal(err)
	}
	if b.Tokens, err = rancher.NewTokens(b.Client, b.Client); err != nil {
		t.Fatal(err)
	}
	return &registrationBench{bench: b, cluster: cluster, setting: setting}
}

// renewFor runs renewRegistration with a value of server-url, and returns whether Rancher was asked to look.
func (b *registrationBench) renewFor(t *testing.T, server string) (out outcome.Outcome, asked bool) {
	t.Helper()
	b.setting.Value = server
	if err := b.Client.Update(t.Context(), b.setting); err != nil {
		t.Fatal(err)
	}
	if !b.there(t, b.cluster) {
		t.Fatal("the v3 Cluster is gone")
	}
	version := b.cluster.ResourceVersion
	out = b.obey(t.Context(), seen(testCluster()).withManagement(b.cluster.DeepCopy()), func(d *deciding) Decision {
		if look := (askTerms{d.management.name}); d.lacks(look) {
			return ask(look)
		}
		return d.awaitRegistration()
	}).Outcome
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(b.cluster), b.cluster); err != nil {
		t.Fatal(err)
	}
	return out, b.cluster.ResourceVersion != version
}

// Rancher does not look at its registration tokens when server-url changes, so it is asked to, once for each server-url
// and not while nothing changed.
func TestRenewRegistration(t *testing.T) {
	const now, old, moved = "https://rancher.example.com", "https://old.example.com", "https://new.example.com"
	cases := map[string]struct {
		reason string
		server string // server-url
		filled string // where the manifest URL leads
		// before are the values of server-url that Rancher was asked about, the last one some time ago.
		before []string
		ago    time.Duration
		want   outcome.Kind
		asks   bool
	}{
		"Same":         {reason: "nothing changed", server: now, filled: now, want: outcome.KindDone},
		"Moved":        {reason: "the address of before may be dead", server: moved, filled: old, want: outcome.KindPoll, asks: true},
		"AskedAlready": {reason: "once is enough for a while", server: moved, filled: old, before: []string{moved}, ago: 4 * time.Minute, want: outcome.KindPoll},
		"AskedLongAgo": {reason: "Rancher may have looked before its cache had the setting", server: moved, filled: old, before: []string{moved}, ago: 6 * time.Minute, want: outcome.KindPoll, asks: true},
		"MovedAgain":   {reason: "another server-url is another question", server: now, filled: old, before: []string{moved}, ago: time.Minute, want: outcome.KindPoll, asks: true},
		"MovedBack":    {reason: "the registration is the right one again", server: old, filled: old, before: []string{moved}, ago: time.Minute, want: outcome.KindDone},
		"Invalid":      {reason: "the installation tells what is wrong with server-url", server: "http://rancher.example.com", filled: old, want: outcome.KindDone},
		"Empty":        {reason: "the installation tells that server-url is missing", server: "", filled: old, want: outcome.KindDone},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newRegistrationBench(t, tc.filled)
			for _, server := range tc.before {
				b.clock.Step(tc.ago)
				b.renewFor(t, server)
			}
			b.clock.Step(tc.ago)
			if out, asked := b.renewFor(t, tc.server); out.Kind != tc.want || asked != tc.asks {
				t.Errorf("%s: renewRegistration() = %v, asked %t; want %v, asked %t", tc.reason, out, asked, tc.want, tc.asks)
			}
		})
	}
}

// While registrations come through, however slowly, Rancher is asked for none of those that wait for their turn; when
// none comes through any more it is, and one whose server-url was of no use does not wait at all.
func TestRegistrationsOfASlowRancherAreNotAskedFor(t *testing.T) {
	b := newRegistrationBench(t, "https://rancher.test")
	clock := b.clock
	born := metav1.NewTime(clock.Now())
	key := func(i int) client.ObjectKey { return client.ObjectKey{Namespace: "n", Name: fmt.Sprint("c", i)} }
	const clusters = 4 * patienceFew
	left := func(i int, unusable bool) time.Duration {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: key(i).Name}}
		o := seen(cluster).withManagement(&managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c-", i), CreationTimestamp: born}})
		o.terms.server = &url.URL{Scheme: "https", Host: "rancher.test"}
		var left time.Duration
		b.run(t.Context(), o, func(o Observation, now time.Time) Decision {
			d := &deciding{Rules: b.Rules, Observation: &o, now: now}
			for _, behind := range o.managements {
				d.management = viewOf(behind.object)
			}
			decision := d.requestRegistration(unusable)
			if left = decision.Outcome.After; decision.Look != nil {
				return decision
			}
			if len(decision.Actions) > 0 {
				left = 0 // Rancher is asked.
			}
			return pass()
		})
		return left
	}
	for i := range clusters {
		if got := left(i, false); got != registrationPatience {
			t.Fatalf("just created: Rancher has %v left, want %v", got, registrationPatience)
		}
	}
	clock.Step(registrationPatience)
	for i := range patienceFew {
		b.registrations.arrive(key(i), clock.Now())
	}
	for i := patienceFew; i < clusters; i++ {
		if got := left(i, false); got <= 0 {
			t.Errorf("others come through after %v: Rancher is asked for the registration of %d", registrationPatience, i)
		}
	}
	if got := left(clusters-1, true); got > 0 {
		t.Errorf("server-url was of no use before: Rancher has %v left, want none", got)
	}
	clock.Step(patienceMax)
	if got := left(clusters-1, false); got > 0 {
		t.Errorf("nothing comes through any more: Rancher has %v left, want none", got)
	}
}
