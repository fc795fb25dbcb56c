package importer

import (
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

// Rancher does not look at its registration tokens when server-url changes, so it is asked to, once for each server-url
// and not while nothing changed.
func TestRenewRegistration(t *testing.T) {
	const now, old, moved = "https://rancher.example.com", "https://old.example.com", "https://new.example.com"
	cases := map[string]struct {
		reason string
		server string // server-url
		filled string // where the manifest URL leads
		// before are the values of server-url that Rancher was asked about, the last one minutes ago.
		before  []string
		minutes time.Duration
		want    outcome.Kind
		asks    bool
	}{
		"Same":         {reason: "nothing changed", server: now, filled: now, want: outcome.KindDone},
		"Moved":        {reason: "the address of before may be dead", server: moved, filled: old, want: outcome.KindPoll, asks: true},
		"AskedAlready": {reason: "once is enough for a while", server: moved, filled: old, before: []string{moved}, minutes: 4, want: outcome.KindPoll},
		"AskedLongAgo": {reason: "Rancher may have looked before its cache had the setting", server: moved, filled: old, before: []string{moved}, minutes: 6, want: outcome.KindPoll, asks: true},
		"MovedAgain":   {reason: "another server-url is another question", server: now, filled: old, before: []string{moved}, minutes: 1, want: outcome.KindPoll, asks: true},
		"MovedBack":    {reason: "the registration is the right one again", server: old, filled: old, before: []string{moved}, minutes: 1, want: outcome.KindDone},
		"Invalid":      {reason: "the installation tells what is wrong with server-url", server: "http://rancher.example.com", filled: old, want: outcome.KindDone},
		"Empty":        {reason: "the installation tells that server-url is missing", server: "", filled: old, want: outcome.KindDone},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde"}}
			setting := &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: "server-url"}}
			token := &managementv3.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "c-abcde", Name: "default-token"}}
			token.Status.ManifestURL = tc.filled + "/v3/import/{token}_c-abcde.yaml"
			b := newBench(t, instance.Claim{}, cluster, setting, token)
			var err error
			if b.Settings, err = rancher.NewSettings(b.Client); err != nil {
				t.Fatal(err)
			}
			if b.Tokens, err = rancher.NewTokens(b.Client, b.Client); err != nil {
				t.Fatal(err)
			}
			servers := append(tc.before, tc.server)
			for i, server := range servers {
				b.clock.Step(tc.minutes * time.Minute)
				setting.Value = server
				if err := b.Client.Update(t.Context(), setting); err != nil {
					t.Fatal(err)
				}
				if !b.there(t, cluster) {
					t.Fatal("the v3 Cluster is gone")
				}
				version := cluster.ResourceVersion
				s := &scope{cluster: &clusterv1.Cluster{}, management: viewOf(cluster.DeepCopy())}
				out := b.renewRegistration(t.Context(), s)
				if i < len(servers)-1 {
					continue
				}
				if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
					t.Fatal(err)
				}
				if asked := cluster.ResourceVersion != version; out.Kind != tc.want || asked != tc.asks {
					t.Errorf("%s: renewRegistration() = %v, asked %t; want %v, asked %t", tc.reason, out, asked, tc.want, tc.asks)
				}
			}
		})
	}
}
