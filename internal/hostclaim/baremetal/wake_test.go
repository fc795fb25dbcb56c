package baremetal

import (
	"context"
	"slices"
	"strings"
	"testing"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
)

// wakers returns a controller of some claims:
//   - a/waits and b/waits wait for hosts of size m, a/large for one of size l, a/elsewhere for one of another namespace
//   - a/pends is about to take host pending, a/knows names host known, a/lost has lost its host for good
//   - a/reads names Secret s, a/member is of Cluster k
func wakers() *Reconciler {
	server := simulation.NewServer(simScheme())
	put := func(namespace, name string, change func(*metal3v1.HostClaim)) {
		claim := simClaim(namespace, name)
		if change != nil {
			change(claim)
		}
		server.Put(claim)
	}
	lost := says("Associated", "False", "HostLost")
	put("a", "waits", nil)
	put("b", "waits", nil)
	put("a", "large", func(c *metal3v1.HostClaim) { c.Spec.HostSelector.MatchLabels["size"] = "l" })
	put("a", "elsewhere", func(c *metal3v1.HostClaim) { c.Spec.HostSelector.InNamespace = "other" })
	put("a", "lost", lost)
	put("a", "pends", func(c *metal3v1.HostClaim) {
		c.Status.PendingHost = &metal3v1.ObjectReference{Namespace: "infra", Name: "pending"}
	})
	put("a", "knows", func(c *metal3v1.HostClaim) {
		c.Status.BareMetalHost = &metal3v1.ObjectReference{Namespace: "infra", Name: "known"}
	})
	put("a", "reads", all(lost, func(c *metal3v1.HostClaim) { c.Spec.UserData = &corev1.SecretReference{Name: "s"} }))
	put("a", "member", all(lost, func(c *metal3v1.HostClaim) { c.Labels = map[string]string{clusterv1.ClusterNameLabel: "k"} }))
	server.Put(wokenHost("held", "knows"))
	server.Put(wokenHost("pending", ""))
	cache := server.NewCache(simKinds...)
	for _, index := range append(hostIndexes(), claimIndexes()...) {
		cache.Index(index.Object, index.Name, index.Keys)
	}
	return &Reconciler{Read: Readers{Claims: []client.Reader{cache}, Objects: cache, Metadata: cache}}
}

// wokenHost returns a host that is free, or belongs to a claim.
func wokenHost(name, consumer string) *bmov1.BareMetalHost {
	host := simHost(name, "*")
	if consumer != "" {
		host.Spec.ConsumerRef = consumerRef(simClaim("a", consumer))
	}
	return host
}

func TestWakes(t *testing.T) {
	r := wakers()
	large := wokenHost("large", "")
	large.Labels["size"] = "l"
	gaveUpPending := simClaim("a", "pends")
	gaveUpPending.Status.PendingHost = &metal3v1.ObjectReference{Namespace: "infra", Name: "pending"}
	named := func(object client.Object, namespace, name string) client.Object {
		object.SetNamespace(namespace)
		object.SetName(name)
		return object
	}
	for name, tc := range map[string]struct {
		wakes func(context.Context, client.Object) []reconcile.Request
		of    client.Object
		want  string
	}{
		"a free host":                   {r.claimsOfHost, wokenHost("free", ""), "a/waits b/waits"},
		"a free host of another size":   {r.claimsOfHost, large, "a/large"},
		"a host of a claim":             {r.claimsOfHost, wokenHost("x", "knows"), "a/knows"},
		"a host that is named":          {r.claimsOfHost, wokenHost("known", "other"), "a/knows a/other"},
		"a host that is about to go":    {r.claimsOfHost, wokenHost("pending", "other"), "a/other a/pends"},
		"a policy":                      {r.waitingClaims, named(&metal3v1.HostDeployPolicy{}, "infra", "p"), "a/large a/waits b/waits"},
		"a policy of another":           {r.waitingClaims, named(&metal3v1.HostDeployPolicy{}, "other", "p"), "a/elsewhere a/large a/waits b/waits"},
		"a Namespace":                   {r.claimsOfNamespace, named(namespaceMetadata(), "", "b"), "b/waits"},
		"a Secret":                      {r.claimsOfSecret, named(secretMetadata(), "a", "s"), "a/reads"},
		"a Secret of another":           {r.claimsOfSecret, named(secretMetadata(), "b", "s"), ""},
		"a copy":                        {r.claimsOfSecret, named(secretMetadata(), "infra", "held-hc-userdata"), "a/knows"},
		"what has the name of a copy":   {r.claimsOfSecret, named(secretMetadata(), "infra", "nothing-hc-userdata"), ""},
		"data of the hardware":          {r.claimsOfHardware, named(hardwareMetadata(), "infra", "held"), "a/knows"},
		"a Cluster":                     {r.claimsOfCluster, named(&clusterv1.Cluster{}, "a", "k"), "a/member"},
		"a claim that gave up":          {r.claimsOfReserved, gaveUpPending, "a/waits b/waits"},
		"a claim that had none to give": {r.claimsOfReserved, simClaim("a", "waits"), ""},
	} {
		var got []string
		for _, request := range tc.wakes(t.Context(), tc.of) {
			got = append(got, request.String())
		}
		slices.Sort(got)
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s wakes %v, want %s", name, got, tc.want)
		}
	}
}

// A claim that takes the host which it reserved is no news to others.
func TestGaveUp(t *testing.T) {
	claim := func(pending, bound string) *metal3v1.HostClaim {
		c := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}}
		if pending != "" {
			c.Status.PendingHost = &metal3v1.ObjectReference{Namespace: "infra", Name: pending}
		}
		if bound != "" {
			c.Status.BareMetalHost = &metal3v1.ObjectReference{Namespace: "infra", Name: bound}
		}
		return c
	}
	for name, tc := range map[string]struct {
		was, is *metal3v1.HostClaim
		want    bool
	}{
		"reserves":      {claim("", ""), claim("h", ""), false},
		"keeps":         {claim("h", ""), claim("h", ""), false},
		"takes":         {claim("h", ""), claim("", "h"), false},
		"gives up":      {claim("h", ""), claim("", ""), true},
		"takes another": {claim("h", ""), claim("i", ""), true},
	} {
		if got := gaveUp().Update(event.UpdateEvent{ObjectOld: tc.was, ObjectNew: tc.is}); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if !gaveUp().Delete(event.DeleteEvent{Object: claim("h", "")}) || gaveUp().Delete(event.DeleteEvent{Object: claim("", "h")}) {
		t.Error("of claims that go those matter that were about to take a host")
	}
}
