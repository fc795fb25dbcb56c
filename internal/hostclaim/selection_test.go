package hostclaim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

func freeHost(name string) *bmov1.BareMetalHost {
	return &bmov1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "infra", Name: name, UID: types.UID("uid-" + name),
			Labels: map[string]string{"size": "medium"}, Annotations: map[string]string{metal3v1.NamespacesKey: "*"},
		},
		Status: bmov1.BareMetalHostStatus{Provisioning: bmov1.ProvisionStatus{State: bmov1.StateAvailable}},
	}
}

func TestFree(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*bmov1.BareMetalHost)
		want   bool
	}{
		"free":              {func(*bmov1.BareMetalHost) {}, true},
		"ready, as of old":  {func(h *bmov1.BareMetalHost) { h.Status.Provisioning.State = "ready" }, true},
		"consumed":          {func(h *bmov1.BareMetalHost) { h.Spec.ConsumerRef = &corev1.ObjectReference{} }, false},
		"going":             {func(h *bmov1.BareMetalHost) { h.DeletionTimestamp = new(metav1.Now()) }, false},
		"reserved":          {func(h *bmov1.BareMetalHost) { h.Labels[metal3v1.NodeReuseLabel] = "" }, false},
		"provisioned":       {func(h *bmov1.BareMetalHost) { h.Status.Provisioning.State = "provisioned" }, false},
		"unknown":           {func(h *bmov1.BareMetalHost) { h.Status.Provisioning.State = "" }, false},
		"erring":            {func(h *bmov1.BareMetalHost) { h.Status.ErrorMessage = "x" }, false},
		"detached":          {func(h *bmov1.BareMetalHost) { h.Status.OperationalStatus = "detached" }, false},
		"to be detached":    {func(h *bmov1.BareMetalHost) { h.Annotations["baremetalhost.metal3.io/detached"] = "" }, false},
		"paused":            {func(h *bmov1.BareMetalHost) { h.Annotations["baremetalhost.metal3.io/paused"] = "" }, false},
		"unhealthy":         {func(h *bmov1.BareMetalHost) { h.Annotations["capm3.metal3.io/unhealthy"] = "" }, false},
		"unhealthy, before": {func(h *bmov1.BareMetalHost) { h.Annotations["capi.metal3.io/unhealthy"] = "" }, false},
		"of somebody else":  {func(h *bmov1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }, false},
		"about to be used":  {func(h *bmov1.BareMetalHost) { h.Spec.Image = &bmov1.Image{} }, false},
		"about to be ours?": {func(h *bmov1.BareMetalHost) { h.Spec.CustomDeploy = &bmov1.CustomDeploy{} }, false},
	} {
		host := freeHost("h")
		tc.change(host)
		if got := Free(host); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
		if got := len(Pools(host)) > 0; got != tc.want {
			t.Errorf("%s: it is in pools: %v", name, got)
		}
	}
}

func TestSelectors(t *testing.T) {
	one := func(key, operator string, values ...string) metal3v1.HostSelector {
		return metal3v1.HostSelector{MatchExpressions: []metal3v1.HostSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	for name, tc := range map[string]struct {
		selector metal3v1.HostSelector
		want     string // whether it selects a=1, or the error
	}{
		"everything":                    {metal3v1.HostSelector{}, "true"},
		"labels":                        {metal3v1.HostSelector{MatchLabels: map[string]string{"a": "1"}}, "true"},
		"other labels":                  {metal3v1.HostSelector{MatchLabels: map[string]string{"a": "2"}}, "false"},
		"in":                            {one("a", "iN", "1", "2"), "true"},
		"not in":                        {one("a", "NotIn", "1"), "false"},
		"exists":                        {one("a", "EXISTS"), "true"},
		"does not exist":                {one("a", "doesnotexist"), "false"},
		"not in, of none":               {one("b", "NotIn", "1"), "true"},
		"in, of none":                   {one("b", "In", "1"), "false"},
		"all of them":                   {metal3v1.HostSelector{MatchExpressions: []metal3v1.HostSelectorRequirement{{Key: "a", Operator: "Exists"}, {Key: "b", Operator: "Exists"}}}, "false"},
		"Metal3's sign of absence":      {one("b", "!"), "true"},
		"Metal3's sign of absence, not": {one("a", "!"), "false"},
		"equal":                         {one("a", "=", "1"), "true"},
		"equal, not":                    {one("a", "==", "2"), "false"},
		"not equal":                     {one("a", "!=", "2"), "true"},
		"not equal, not":                {one("a", "!=", "1"), "false"},
		"equal to two":                  {one("a", "=", "1", "2"), "one single value"},
		"no operator":                   {one("a", "", "1"), `"" is not an operator`},
		"another operator":              {one("a", "gt", "1"), `"gt" is not an operator`},
		"in without values":             {one("a", "In"), "for 'in', 'notin' operators, values set can't be empty"},
		"exists with values":            {one("a", "Exists", "1"), "values set must be empty"},
		"no key":                        {one("", "Exists"), "name part must be non-empty"},
		"a value that no label can have": {
			metal3v1.HostSelector{MatchLabels: map[string]string{"a": "*"}}, "a valid label must be",
		},
	} {
		got := fmt.Sprint(selectorProblem(&metal3v1.HostClaim{Spec: metal3v1.HostClaimSpec{HostSelector: tc.selector}}))
		if got == fmt.Sprint(nil) {
			got = fmt.Sprint(Wants(tc.selector, &bmov1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1"}}}))
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestSelect(t *testing.T) {
	claim := func(change func(*metal3v1.HostClaimSpec)) *metal3v1.HostClaim {
		c := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c", UID: "c"}}
		c.Spec.HostSelector.MatchLabels = map[string]string{"size": "medium"}
		if change != nil {
			change(&c.Spec)
		}
		return c
	}
	near := freeHost("near")
	near.Labels[metal3v1.FailureDomainLabel] = "z1"
	closed := freeHost("closed")
	closed.Annotations = nil
	large := freeHost("large")
	large.Labels["size"] = "large"
	for name, tc := range map[string]struct {
		claim *metal3v1.HostClaim
		hosts []*bmov1.BareMetalHost
		want  string
	}{
		"none":          {claim(nil), nil, "NoBareMetalHost"},
		"one that fits": {claim(nil), []*bmov1.BareMetalHost{large, near}, "near"},
		"one that is not open": {
			claim(nil), []*bmov1.BareMetalHost{closed, large}, "NoBareMetalHost No host that matches spec.hostSelector is free and allows this namespace. Change spec.hostSelector, or ask your administrator",
		},
		"other namespace": {
			claim(func(s *metal3v1.HostClaimSpec) { s.HostSelector.InNamespace = "x" }), []*bmov1.BareMetalHost{near}, "NoBareMetalHost",
		},
		"failure domain": {
			claim(func(s *metal3v1.HostClaimSpec) { s.FailureDomain = "z1" }),
			[]*bmov1.BareMetalHost{freeHost("a"), near, freeHost("b"), freeHost("c")}, "near",
		},
		"no host of the failure domain": {
			claim(func(s *metal3v1.HostClaimSpec) { s.FailureDomain = "z2" }), []*bmov1.BareMetalHost{near},
			"near No host of failure domain z2 is free",
		},
		"selector that cannot be read": {
			claim(func(s *metal3v1.HostClaimSpec) { s.HostSelector.MatchLabels["size"] = "*" }), nil, "SelectorInvalid",
		},
	} {
		answer := Select(Question{Claim: tc.claim, Requester: Requester{Name: "team"}, Hosts: tc.hosts})
		got := answer.Reason + " " + answer.Message
		if answer.Host != nil {
			got = answer.Host.Name + " " + answer.Message
		}
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// Many claims that choose at once spread over the hosts, and one chooses the same again.
func TestChoicesSpread(t *testing.T) {
	var hosts []*bmov1.BareMetalHost
	for i := range 100 {
		hosts = append(hosts, freeHost(fmt.Sprint("h", i)))
	}
	chosen := map[string]bool{}
	for i := range 100 {
		claim := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}}
		q := Question{Claim: claim, Hosts: hosts}
		first := Select(q).Host
		chosen[first.Name] = true
		if again := Select(q).Host; again != first {
			t.Fatalf("claim %d chose %s and then %s", i, first.Name, again.Name)
		}
	}
	if len(chosen) < 50 { // 63 are expected.
		t.Errorf("100 claims chose %d hosts", len(chosen))
	}
}

func TestPoolOfHasWhatFits(t *testing.T) {
	host := freeHost("h")
	host.Labels["rack"] = "a"
	for _, wanted := range []map[string]string{nil, {"rack": "a"}, {"size": "medium"}, {"size": "medium", "rack": "a"}} {
		pool, found := PoolOf(metal3v1.HostSelector{MatchLabels: wanted}), false
		for _, is := range Pools(host) {
			found = found || is == pool
		}
		if !found {
			t.Errorf("a host that has %v is not in pool %q", wanted, pool)
		}
	}
}

// A claim that waits is woken by many hosts, and its selector stays the same.
func TestASelectorIsReadOnceForEachGeneration(t *testing.T) {
	claim := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c", Generation: 2}}
	for range 32 {
		claim.Spec.HostSelector.MatchExpressions = append(claim.Spec.HostSelector.MatchExpressions, metal3v1.HostSelectorRequirement{
			Key: "size", Operator: "NotIn", Values: []string{"a", "b", "c", "medium"},
		})
	}
	question := Question{Claim: claim, Hosts: []*bmov1.BareMetalHost{freeHost("h")}}
	SetCondition(claim, &claim.Status, metav1.Condition{
		Type: metal3v1.AssociatedCondition, Status: metav1.ConditionFalse, Reason: Select(question).Reason,
	}, time.Now())
	if got := testing.AllocsPerRun(5, func() { Select(question) }); got > 10 {
		t.Errorf("%.0f allocations to look at a host", got)
	}
	claim.Generation++
	claim.Spec.HostSelector.MatchExpressions[0].Operator = "?"
	if got := Select(question).Reason; got != metal3v1.SelectorInvalidReason {
		t.Errorf("a selector that has changed: %s", got)
	}
}
