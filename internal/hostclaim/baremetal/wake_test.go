package baremetal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
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
	put("a", "waits", nil)
	put("b", "waits", nil)
	put("a", "large", func(c *metal3v1.HostClaim) { c.Spec.HostSelector.MatchLabels["size"] = "l" })
	put("a", "elsewhere", func(c *metal3v1.HostClaim) { c.Spec.HostSelector.InNamespace = "other" })
	put("a", "lost", lostForGood)
	put("a", "pends", func(c *metal3v1.HostClaim) {
		c.Status.PendingHost = &metal3v1.ObjectReference{Namespace: "infra", Name: "pending"}
	})
	put("a", "knows", func(c *metal3v1.HostClaim) {
		c.Status.BareMetalHost = &metal3v1.ObjectReference{Namespace: "infra", Name: "known"}
	})
	put("a", "reads", all(lostForGood, func(c *metal3v1.HostClaim) { c.Spec.UserData = &corev1.SecretReference{Name: "s"} }))
	put("a", "member", all(lostForGood, func(c *metal3v1.HostClaim) { c.Labels = map[string]string{clusterv1.ClusterNameLabel: "k"} }))
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
		wakes func(context.Context, client.Object) []ctrl.Request
		of    client.Object
		want  string
	}{
		"a free host":                   {r.claimsOfOffer, wokenHost("free", ""), "a/waits b/waits"},
		"a free host of another size":   {r.claimsOfOffer, large, "a/large"},
		"a host of a claim":             {r.claimsOfHost, wokenHost("x", "knows"), "a/knows"},
		"a host that is named":          {r.claimsOfHost, wokenHost("known", "other"), "a/knows a/other"},
		"a host that is about to go":    {r.claimsOfHost, wokenHost("pending", "other"), "a/other a/pends"},
		"a policy":                      {r.claimsOfPolicy, named(&metal3v1.HostDeployPolicy{}, "infra", "p"), "a/knows a/large a/waits b/waits"},
		"a policy of another":           {r.claimsOfPolicy, named(&metal3v1.HostDeployPolicy{}, "other", "p"), "a/elsewhere a/large a/waits b/waits"},
		"a Namespace":                   {r.claimsOfNamespace, named(namespaceMetadata(), "", "b"), "b/waits"},
		"a Namespace with a host":       {r.claimsOfNamespace, named(namespaceMetadata(), "", "a"), "a/elsewhere a/knows a/large a/waits"},
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

// wokenBy returns the claims that a change of a host wakes, as informers and handlers do it.
func wokenBy(ctx context.Context, r *Reconciler, was, is *bmov1.BareMetalHost) map[string]bool {
	woken := map[string]bool{}
	for _, watch := range r.watches() {
		if _, ofHosts := watch.Object.(*bmov1.BareMetalHost); !ofHosts || !watch.Admits.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}) {
			continue
		}
		for _, request := range append(watch.Requests(ctx, was), watch.Requests(ctx, is)...) {
			woken[request.String()] = true
		}
	}
	return woken
}

// Many claims may wait for a host whose status changes every second.
func TestOnlyWhatIsOfferedWakesThoseWhoWait(t *testing.T) {
	for name, tc := range map[string]struct {
		was, is func(*bmov1.BareMetalHost)
		want    bool
	}{
		"its status changes":        {is: func(h *bmov1.BareMetalHost) { h.Status.PoweredOn = true }},
		"it is checked":             {is: func(h *bmov1.BareMetalHost) { h.Status.LastUpdated = new(metav1.Now()) }},
		"it changes and is in use":  {was: occupied, is: func(h *bmov1.BareMetalHost) { occupied(h); h.Labels["rack"] = "1" }},
		"it becomes free":           {was: occupied, want: true},
		"it is free no more":        {is: occupied, want: true},
		"it has another label":      {is: func(h *bmov1.BareMetalHost) { h.Labels["rack"] = "1" }, want: true},
		"it is opened":              {was: func(h *bmov1.BareMetalHost) { h.Annotations = nil }, want: true},
		"nothing cleans it":         {is: func(h *bmov1.BareMetalHost) { h.Spec.AutomatedCleaningMode = "disabled" }, want: true},
		"it was deleted and is new": {is: func(h *bmov1.BareMetalHost) { h.UID = "new" }, want: true},
	} {
		was, is := wokenHost("h", ""), wokenHost("h", "")
		was.ResourceVersion, is.ResourceVersion = "1", "2"
		for host, change := range map[*bmov1.BareMetalHost]func(*bmov1.BareMetalHost){was: tc.was, is: tc.is} {
			if change != nil {
				change(host)
			}
		}
		if got := wokenBy(t.Context(), wakers(), was, is)["a/waits"]; got != tc.want {
			t.Errorf("%s: a claim that waits is woken: %v", name, got)
		}
	}
}

func occupied(host *bmov1.BareMetalHost) { host.Spec.ConsumerRef = consumerRef(simClaim("b", "other")) }

// keptClaims is a cache with claims that wait for any host.
type keptClaims struct {
	client.Reader

	claims []metal3v1.HostClaim
}

// List implements client.Reader.
func (k keptClaims) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(opts)
	pool := client.MatchingFields{waitingIndex: hostclaim.PoolOf(metal3v1.HostSelector{})}
	if claims, ok := list.(*metal3v1.HostClaimList); ok && asked.FieldSelector.String() == fields.Set(pool).String() {
		claims.Items = k.claims
	}
	return nil
}

// What tenants ask for is not compiled in the handler of an event, which all other events wait for.
func TestAHostThatBecomesFreeCostsNothingForEachClaim(t *testing.T) {
	const claims = 300
	asked := simClaim("a", "c")
	asked.Spec.HostSelector = metal3v1.HostSelector{}
	for range 32 {
		each := metal3v1.HostSelectorRequirement{Key: "size", Operator: "NotIn"}
		for i := range 8 {
			each.Values = append(each.Values, fmt.Sprintf("%s%d", strings.Repeat("v", 62), i))
		}
		asked.Spec.HostSelector.MatchExpressions = append(asked.Spec.HostSelector.MatchExpressions, each)
	}
	asked.Spec.HostSelector.MatchExpressions[31].Operator = "In"
	r := &Reconciler{Read: Readers{Claims: []client.Reader{keptClaims{claims: slices.Repeat([]metal3v1.HostClaim{*asked}, claims)}}}}
	was, is := wokenHost("h", ""), wokenHost("h", "")
	was.ResourceVersion, is.ResourceVersion = "1", "2"
	occupied(was)
	start := time.Now()
	allocated := testing.AllocsPerRun(1, func() { wokenBy(t.Context(), r, was, is) })
	t.Logf("%.0f allocations and %s for %d claims", allocated, time.Since(start)/2, claims)
	if allocated > claims {
		t.Errorf("%.0f allocations for %d claims that do not fit", allocated, claims)
	}
}
