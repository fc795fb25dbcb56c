package hostclaim

import (
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

func TestAuthorize(t *testing.T) {
	policy := func(from *metal3v1.HostClaimNamespaces) metal3v1.HostDeployPolicy {
		return metal3v1.HostDeployPolicy{Spec: metal3v1.HostDeployPolicySpec{HostClaimNamespaces: from}}
	}
	named := func(names ...string) metal3v1.HostDeployPolicy {
		return policy(&metal3v1.HostClaimNamespaces{Names: names})
	}
	matching := func(expression string) metal3v1.HostDeployPolicy {
		return policy(&metal3v1.HostClaimNamespaces{NameMatches: expression})
	}
	labelled := func(name, value string) metal3v1.HostDeployPolicy {
		return policy(&metal3v1.HostClaimNamespaces{HasLabels: []metal3v1.NameValuePair{{Name: name, Value: value}}})
	}
	const absent = "-"
	for name, tc := range map[string]struct {
		label, annotation string
		policies          []metal3v1.HostDeployPolicy
		want              refusedBy
	}{
		"nothing at all":                     {absent, absent, nil, refusedByDefault},
		"empty label":                        {"", absent, nil, refusedByOptIn},
		"its name":                           {"team-a", absent, nil, refusedByNobody},
		"one of several, by underscores":     {"x_team-a", absent, nil, refusedByNobody},
		"one of several, by dots":            {"team-a.x", absent, nil, refusedByNobody},
		"a part of its name":                 {"team", absent, nil, refusedByOptIn},
		"more than its name":                 {"team-a2", absent, nil, refusedByOptIn},
		"ALL":                                {"ALL", absent, nil, refusedByNobody},
		"all, which may be a namespace":      {"all", absent, nil, refusedByOptIn},
		"star as no API server stores it":    {"*", absent, nil, refusedByNobody},
		"star":                               {absent, " * ", nil, refusedByNobody},
		"star among names is none":           {absent, "x,*", nil, refusedByOptIn},
		"ALL is for labels":                  {absent, "ALL", nil, refusedByOptIn},
		"names with spaces":                  {absent, "x , team-a ", nil, refusedByNobody},
		"names by underscores are for label": {absent, "x_team-a", nil, refusedByOptIn},
		"label refuses, annotation allows":   {"x", "*", nil, refusedByOptIn},
		"label allows, annotation refuses":   {"ALL", "x", nil, refusedByOptIn},
		"both allow":                         {"ALL", "team-a", nil, refusedByNobody},
		"empty policy":                       {absent, absent, []metal3v1.HostDeployPolicy{policy(nil)}, refusedByPolicies},
		"policy that sets nothing": {
			absent, absent, []metal3v1.HostDeployPolicy{policy(&metal3v1.HostClaimNamespaces{})}, refusedByPolicies,
		},
		"policy for all":           {absent, absent, []metal3v1.HostDeployPolicy{matching(".*")}, refusedByNobody},
		"policy by name":           {absent, absent, []metal3v1.HostDeployPolicy{named("x"), named("team-a")}, refusedByNobody},
		"policy for others":        {absent, absent, []metal3v1.HostDeployPolicy{named("x")}, refusedByPolicies},
		"policy for an empty list": {absent, absent, []metal3v1.HostDeployPolicy{policy(&metal3v1.HostClaimNamespaces{Names: []string{}})}, refusedByPolicies},
		"expression":               {absent, absent, []metal3v1.HostDeployPolicy{matching("team-.")}, refusedByNobody},
		"expression for a part":    {absent, absent, []metal3v1.HostDeployPolicy{matching("team")}, refusedByPolicies},
		"expression of alternatives": {
			absent, absent, []metal3v1.HostDeployPolicy{matching("x|team")}, refusedByPolicies,
		},
		"expression that would undo the anchors": {
			absent, absent, []metal3v1.HostDeployPolicy{matching("x)|(?:team-a.*")}, refusedByPolicies,
		},
		"unreadable beside a good one": {
			absent, absent, []metal3v1.HostDeployPolicy{matching("("), named("team-a")}, refusedByNobody,
		},
		"label of the Namespace":          {absent, absent, []metal3v1.HostDeployPolicy{labelled("env", "prod")}, refusedByNobody},
		"any value":                       {absent, absent, []metal3v1.HostDeployPolicy{labelled("env", "")}, refusedByNobody},
		"other value":                     {absent, absent, []metal3v1.HostDeployPolicy{labelled("env", "dev")}, refusedByPolicies},
		"label that it has not":           {absent, absent, []metal3v1.HostDeployPolicy{labelled("zone", "")}, refusedByPolicies},
		"label allows, policies do not":   {"team-a", absent, []metal3v1.HostDeployPolicy{named("x")}, refusedByPolicies},
		"policies allow, label does not":  {"x", absent, []metal3v1.HostDeployPolicy{named("team-a")}, refusedByOptIn},
		"all fields of a policy together": {absent, absent, []metal3v1.HostDeployPolicy{policy(&metal3v1.HostClaimNamespaces{Names: []string{"team-a"}, NameMatches: "x"})}, refusedByPolicies},
	} {
		t.Run(name, func(t *testing.T) {
			host := &bmov1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
				Namespace: "infra", Labels: map[string]string{}, Annotations: map[string]string{},
			}}
			if tc.label != absent {
				host.Labels["hostclaims.metal3.io/namespaces"] = tc.label
			}
			if tc.annotation != absent {
				host.Annotations["hostclaims.metal3.io/namespaces"] = tc.annotation
			}
			r := Requester{Name: "team-a", Labels: map[string]string{"env": "prod"}}
			policies := Policies{"infra": tc.policies, "other": {named("team-a")}}
			if got := authorize(host, policies.ask("infra", r), r); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAHostThatIsNotCleaned(t *testing.T) {
	const began = "2026-11-22T12:00:00Z"
	at, err := time.Parse(time.RFC3339, began)
	if err != nil {
		t.Fatal(err)
	}
	allows := metal3v1.HostDeployPolicy{Spec: metal3v1.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3v1.HostClaimNamespaces{NameMatches: ".*"}, AllowUncleanedHosts: true,
	}}
	others := metal3v1.HostDeployPolicy{Spec: metal3v1.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3v1.HostClaimNamespaces{Names: []string{"x"}}, AllowUncleanedHosts: true,
	}}
	plain := metal3v1.HostDeployPolicy{Spec: metal3v1.HostDeployPolicySpec{HostClaimNamespaces: &metal3v1.HostClaimNamespaces{NameMatches: ".*"}}}
	const mine, theirs = `{"namespace":"team-a","provisioned":"` + began + `"`, `{"namespace":"team-b","provisioned":"` + began + `"`
	for name, tc := range map[string]struct {
		mode     bmov1.AutomatedCleaningMode
		last     string
		never    bool
		policies []metal3v1.HostDeployPolicy
		want     refusedBy
	}{
		"never provisioned":                        {mode: "disabled", never: true},
		"of itself":                                {mode: "disabled", last: mine + `,"uncleaned":true}`},
		"of another namespace":                     {mode: "disabled", last: theirs + `,"uncleaned":true}`, want: refusedByCleaning},
		"of nobody knows whom":                     {mode: "disabled", want: refusedByCleaning},
		"of itself, and somebody else's since":     {mode: "disabled", last: `{"namespace":"team-a","provisioned":"2020-01-01T00:00:00Z"}`, want: refusedByCleaning},
		"unreadable":                               {mode: "disabled", last: "team-a", want: refusedByCleaning},
		"unreadable, and without a history":        {mode: "disabled", last: "team-a", never: true, want: refusedByCleaning},
		"of itself, and its history is lost":       {mode: "disabled", last: mine + "}", never: true, want: refusedByCleaning},
		"of itself, as an administrator says":      {mode: "disabled", last: `{"namespace":"team-a"}`},
		"cleaned":                                  {mode: "metadata", last: theirs + "}"},
		"cleaned, of nobody knows whom":            {mode: "metadata"},
		"not cleaned when it was given back":       {mode: "metadata", last: theirs + `,"uncleaned":true}`, want: refusedByCleaning},
		"not cleaned then, and somebody's since":   {mode: "metadata", last: `{"namespace":"team-b","provisioned":"2020-01-01T00:00:00Z","uncleaned":true}`},
		"cleaned, and is not any more":             {mode: "disabled", last: theirs + "}", want: refusedByCleaning},
		"a policy allows it":                       {mode: "disabled", policies: []metal3v1.HostDeployPolicy{plain, allows, others}},
		"a policy allows it to others":             {mode: "disabled", policies: []metal3v1.HostDeployPolicy{others, plain}, want: refusedByCleaning},
		"a policy that says nothing of it allows":  {mode: "disabled", policies: []metal3v1.HostDeployPolicy{plain}, want: refusedByCleaning},
		"a policy allows it to others and no more": {mode: "disabled", policies: []metal3v1.HostDeployPolicy{others}, want: refusedByPolicies},
	} {
		host := freeHost("h")
		host.Spec.AutomatedCleaningMode = tc.mode
		if !tc.never {
			host.Status.OperationHistory.Provision.Start = metav1.NewTime(at.Local())
		}
		if tc.last != "" {
			host.Annotations[metal3v1.LastUseAnnotation] = tc.last
		}
		r := Requester{Name: "team-a"}
		if got := authorize(host, Policies{"infra": tc.policies}.ask("infra", r), r); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestPolicyProblem(t *testing.T) {
	for expression, want := range map[string]bool{"": true, "a.*": false, "(": true, "a)|(b": true} {
		policy := &metal3v1.HostDeployPolicy{Spec: metal3v1.HostDeployPolicySpec{
			HostClaimNamespaces: &metal3v1.HostClaimNamespaces{NameMatches: expression},
		}}
		if got := PolicyProblem(policy) != ""; got != want {
			t.Errorf("%q: got %v", expression, got)
		}
	}
}

// An expression of one policy is asked for by each claim, of whatever tenant.
func TestExpressionsAreCheapToAsk(t *testing.T) {
	policies := func(expression string) Policies {
		return Policies{"infra": {{Spec: metal3v1.HostDeployPolicySpec{
			HostClaimNamespaces: &metal3v1.HostClaimNamespaces{NameMatches: expression},
		}}}}
	}
	for name, expression := range map[string]string{
		"of the usual kind": "team-[a-z0-9]{1,32}", "with many names": "x" + strings.Repeat("|team-a-b-c-d-e", 60),
		"that repeats too much": strings.Repeat(`(\pL?){1000}`, 85),
	} {
		asked := policies(expression)
		requester := Requester{Name: strings.Repeat("a", 63)}
		if got := testing.AllocsPerRun(2, func() { asked.ask("infra", requester) }); got > 5 {
			t.Errorf("an expression %s: %.0f allocations for each claim", name, got)
		}
	}
	for expression, want := range map[string]string{"team-.*": "", strings.Repeat(`a{1000}`, 3): "it repeats too much", "(": "missing closing )"} {
		problem := PolicyProblem(&policies(expression)["infra"][0])
		if (problem == "") != (want == "") || !strings.Contains(problem, want) {
			t.Errorf("%s: got %q, want %q", expression, problem, want)
		}
	}
}
