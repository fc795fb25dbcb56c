package check

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/featuregate"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/shard"
)

func gates(t *testing.T, on ...string) featuregate.FeatureGate {
	t.Helper()
	g, err := feature.NewGates()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range on {
		if name == "" {
			continue
		}
		if err := g.Set(name + "=true"); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func scope(t *testing.T, names ...string) shard.Scope {
	t.Helper()
	s, err := shard.New(names, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// expect compares all but the words, and looks for some of them.
func expect(t *testing.T, got Finding, state State, words string) {
	t.Helper()
	if got.State != state || !strings.Contains(got.Message+" "+got.Remedy, words) {
		t.Errorf("got %s: %s %s; want %s with %q", got.State, got.Message, got.Remedy, state, words)
	}
	if (got.State == OK) == (got.Remedy != "") || !strings.HasSuffix(got.Message, ".") {
		t.Errorf("%+v: what is not fine has a remedy, and a message is a sentence", got)
	}
}

func TestVersions(t *testing.T) {
	selects := func(bool) []controller.Controller {
		return []controller.Controller{{Gate: "host-claim", CRDs: []controller.CRD{{Selectable: ".spec.kind"}}}}
	}
	for text, tc := range map[string]struct {
		gate  string
		state State
		words string
	}{
		"v1.29.9":     {"", Error, "1.30 or newer"},
		"v1.30.0":     {"", OK, "Kubernetes v1.30.0"},
		"v1.31.4+k3s": {"host-claim", Warning, "1.32 or newer"},
		"v1.31.5":     {"", OK, "Kubernetes v1.31.5"},
		"v1.36.3":     {"host-claim", OK, "Kubernetes v1.36.3"},
		"of my own":   {"", Warning, "See that it is 1.30 or newer"},
	} {
		t.Run(text, func(t *testing.T) {
			c := &checker{Options: Options{Controllers: selects, Gates: gates(t, tc.gate)}}
			expect(t, c.versionOf(text), tc.state, tc.words)
		})
	}
	chart, err := os.ReadFile(filepath.Join("..", "..", "charts", "archelon", "Chart.yaml"))
	if err != nil || !bytes.Contains(chart, []byte(`kubeVersion: ">= `+oldest+`"`)) {
		t.Errorf("the chart needs another version of Kubernetes than %s (%v)", oldest, err)
	}
}

func TestKinds(t *testing.T) {
	served := &apiextensionsv1.CustomResourceDefinition{}
	served.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}}
	served.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	foreign := controller.CRD{Name: "things.example.com", Version: "v1", Of: controller.Product{Name: "Things", Needed: "Things 2"}}
	newer := foreign
	newer.Version = "v2"
	own := foreign
	own.Of.Name = "Archelon"
	for name, tc := range map[string]struct {
		needed controller.CRD
		crd    *apiextensionsv1.CustomResourceDefinition
		state  State
		words  string
	}{
		"Served":  {foreign, served, OK, "things.example.com of Things serves v1."},
		"Missing": {foreign, nil, Error, "CRD things.example.com does not exist. Install or upgrade Things: Things 2."},
		"Old":     {newer, served, Error, "Things serves v1 only (CRD things.example.com). Install or upgrade Things: Things 2."},
		"Own":     {own, nil, Warning, "The chart installs it"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, judge("crd", tc.needed, tc.crd), tc.state, tc.words) })
	}
}

func turtlesWith(args ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Args: append([]string{"--leader-elect"}, args...)}}
	return d
}

func TestTurtles(t *testing.T) {
	rolling := turtlesWith("--watch-filter=parked")
	rolling.Generation = 2
	for name, tc := range map[string]struct {
		deployment *appsv1.Deployment
		fits, told bool
		state      State
		words      string
	}{
		"Imports":   {deployment: turtlesWith(), state: Error, words: "imports clusters with the same label. Park its importer"},
		"SaidSo":    {deployment: turtlesWith(), told: true, state: Error, words: "imports clusters with the same label"},
		"Parked":    {deployment: turtlesWith("--watch-filter=parked"), told: true, state: OK, words: "is parked"},
		"TwoWords":  {deployment: turtlesWith("--watch-filter", "parked"), told: true, state: OK, words: "is parked"},
		"Untold":    {deployment: turtlesWith("--watch-filter=parked"), state: Warning, words: "turtles.parked=true"},
		"Fits":      {deployment: turtlesWith("--watch-filter=a"), fits: true, told: true, state: Error, words: `watch filter "a", which CAPI Clusters fit`},
		"Rolling":   {deployment: rolling, told: true, state: Warning, words: "Wait until its Deployment is rolled out"},
		"LeaseOnly": {told: true, state: Warning, words: "is not there to say whether it is parked"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &checker{Options: Options{TurtlesParked: tc.told}}
			expect(t, c.judgeTurtles("cattle-turtles-system", tc.deployment, tc.fits), tc.state, tc.words)
		})
	}
}

func TestTurtlesFleet(t *testing.T) {
	const on = "puts finalizer fleetcluster.turtles.cattle.io on the Fleet Clusters of all Rancher clusters, also with a watch"
	const off, alone = "--feature-gates=agent-tls-mode=true,fleet-integration=false", "leaves Fleet Clusters alone"
	for name, tc := range map[string]struct {
		args  []string
		state State
		words string
	}{
		"Default":   {args: []string{"--feature-gates=agent-tls-mode=true"}, state: OK, words: alone},
		"Off":       {args: []string{off}, state: OK, words: alone},
		"On":        {args: []string{"--feature-gates=fleet-integration=true", "--watch-filter=a"}, state: Warning, words: on},
		"TwoWords":  {args: []string{"--feature-gates", "fleet-integration=true"}, state: Warning, words: on},
		"Spaces":    {args: []string{"--feature-gates=ui-plugin=true, fleet-integration = 1"}, state: Warning, words: on},
		"Overrides": {args: []string{"--feature-gates=fleet-integration=true", off}, state: OK, words: alone},
		"Overrode":  {args: []string{off, "--feature-gates=fleet-integration=true"}, state: Warning, words: on},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, judgeTurtlesFleet("cattle-turtles-system", turtlesWith(tc.args...)), tc.state, tc.words)
		})
	}
}

func leaseOf(namespace, name, in string, renewed time.Time) coordinationv1.Lease {
	holder, lasts, at := "somebody", int32(15), metav1.NewMicroTime(renewed)
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-leader-election", CreationTimestamp: metav1.NewTime(renewed.Add(-time.Hour)),
			Labels: map[string]string{"archelon.io/instance": name}, Annotations: map[string]string{"archelon.io/scope": in},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &lasts, RenewTime: &at},
	}
}

func TestTurtlesRuns(t *testing.T) {
	now := time.Now()
	held, old := leaseOf("t", "a", "*", now), leaseOf("t", "a", "*", now.Add(-time.Minute))
	none := int32(0)
	stopped := turtlesWith()
	stopped.Spec.Replicas = &none
	for name, tc := range map[string]struct {
		lease      *coordinationv1.Lease
		deployment *appsv1.Deployment
		want       bool
	}{
		"Nothing": {}, "Held": {lease: &held, want: true}, "LeftOver": {lease: &old}, "Deployed": {deployment: turtlesWith(), want: true},
		"Stopped": {lease: &old, deployment: stopped}, "Stopping": {lease: &held, deployment: stopped, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := turtlesRuns(tc.lease, tc.deployment, now); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestInstances(t *testing.T) {
	now := time.Now()
	const home = "archelon-system"
	alive := func(name, in string) coordinationv1.Lease { return leaseOf(home, name, in, now) }
	foreign := alive("archelon", "*")
	foreign.Annotations = nil
	for name, tc := range map[string]struct {
		leases   []coordinationv1.Lease
		names    []string
		instance string
		at       string
		state    State
		words    string
	}{
		"First":      {state: OK, words: "No other instance has any of all namespaces."},
		"Upgrade":    {leases: []coordinationv1.Lease{alive("archelon", "*")}, state: OK, words: "is registered, and no other one has any of"},
		"Beside":     {leases: []coordinationv1.Lease{alive("a", "+team-a")}, state: OK, words: "archelon-system/a has namespaces team-a"},
		"Gone":       {leases: []coordinationv1.Lease{leaseOf(home, "a", "+team-a", now.Add(-time.Hour))}, state: Warning, words: "not all of these run"},
		"Second":     {leases: []coordinationv1.Lease{alive("other", "*")}, state: Error, words: "would get no namespace: archelon-system/other has all namespaces"},
		"Renamed":    {leases: []coordinationv1.Lease{alive("other", "*")}, instance: "other", state: OK, words: "is registered"},
		"Taken":      {leases: []coordinationv1.Lease{alive("a", "+team-a")}, names: []string{"team-a"}, state: Error, words: "would get no namespace"},
		"OtherNames": {leases: []coordinationv1.Lease{alive("a", "+team-a")}, names: []string{"team-b"}, state: OK, words: "No other instance has any of"},
		"Foreign":    {leases: []coordinationv1.Lease{foreign}, state: Warning, words: "has no scope of an instance"},
		"Two places": {
			leases: []coordinationv1.Lease{alive("a", "+team-a"), leaseOf("elsewhere", "b", "+team-b", now)}, state: Warning,
			words: "archelon-system and elsewhere. Those of different namespaces do not know of each other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &checker{
				Options: Options{Instance: tc.instance, LeaderElectNamespace: tc.at}, now: func() time.Time { return now },
				claim: instance.Claim{Scope: scope(t, tc.names...)},
			}
			expect(t, c.divide(tc.leases), tc.state, tc.words)
		})
	}
}

func TestRancher(t *testing.T) {
	for at, state := range map[string]State{
		"https://rancher.example.com": OK, "https://10.0.0.7:8443/path?token=x": OK, "https://localhost": Warning, "https://127.0.0.1:8443": Warning,
		"https://rancher.cattle-system.svc": Warning, "https://rancher": Warning, "https://[::1]": Warning, "https://169.254.169.254": Warning,
	} {
		parsed, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		got := judgeHost(parsed)
		if expect(t, got, state, "server-url is https://"+parsed.Host); strings.Contains(got.Message, "token") {
			t.Errorf("%s is too much", got.Message)
		}
	}
	now := time.Now()
	expect(t, judgeCertificate(now.Add(90*24*time.Hour), now), OK, "for another 90d")
	expect(t, judgeCertificate(now.Add(3*24*time.Hour), now), Warning, "Renew it")
	expect(t, ofProblem("x", &outcome.Problem{Message: "this is so: change it"}), Error, "This is so. Change it.")
	expect(t, ofProblem("x", &outcome.Problem{Message: "this is so: change it", Err: errors.New("no answer")}), Warning, "could not be read: no answer")
}

// What is asked for is what the packages' markers say, for the gates that are on, and nothing else.
func TestQuestions(t *testing.T) {
	for name, tc := range map[string]struct {
		on, names []string
		in        side
		alone     bool
		has, not  []string
	}{
		"Here, Rancher elsewhere": {
			on: []string{"managementv3-cluster", "remote-rancher"}, has: []string{"get secrets", "patch clusters.cluster.x-k8s.io/status", "create tokenreviews.authentication.k8s.io"},
			not: []string{"create clusters.management.cattle.io", "get secrets crt-token-system"},
		},
		"Rancher's side": {
			on: []string{"managementv3-cluster", "remote-rancher"}, in: rancherSide,
			has: []string{"create clusters.management.cattle.io", "get secrets crt-token-system"},
			not: []string{"get secrets", "patch clusters.cluster.x-k8s.io/status", "delete clusters.provisioning.cattle.io"},
		},
		"V1": {
			has: []string{
				"patch clusters.cluster.x-k8s.io/status", "create clusters.provisioning.cattle.io", "get secrets crt-token-system",
				"delete clusters.management.cattle.io", "fleetaddcluster fleetworkspaces.management.cattle.io fleet-default",
			},
			not: []string{"create clusters.management.cattle.io", "list hostclaims.metal3.io", "get secrets in team-a"},
		},
		"V3": {
			on: []string{"managementv3-cluster"}, has: []string{"create clusters.management.cattle.io", "delete clusters.provisioning.cattle.io"},
			not: []string{"create clusters.provisioning.cattle.io"},
		},
		"Claims": {on: []string{"host-claim"}, has: []string{"list hostclaims.metal3.io"}},
		"Without the import": {
			on: []string{"host-claim"}, alone: true, has: []string{"list hostclaims.metal3.io", "watch clusters.cluster.x-k8s.io"},
			not: []string{"patch clusters.cluster.x-k8s.io", "create clusters.provisioning.cattle.io", "list clusters.management.cattle.io"},
		},
		"Named": {
			names: []string{"team-a", "team-b"}, has: []string{"get secrets in team-a", "get secrets in team-b"},
			not: []string{"get secrets", "get secrets in team-c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &checker{Options: Options{Gates: gates(t, tc.on...), Import: !tc.alone, Namespaces: tc.names}, claim: instance.Claim{Scope: scope(t, tc.names...)}}
			questions, err := c.questions(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			asked := sets.New[string]()
			for _, q := range questions {
				asked.Insert(describe(q))
			}
			if lacking := sets.New(tc.has...).Difference(asked); lacking.Len() > 0 {
				t.Errorf("%v are not asked for, only %v", sets.List(lacking), sets.List(asked))
			}
			if unwanted := asked.Intersection(sets.New(tc.not...)); unwanted.Len() > 0 {
				t.Errorf("%v are asked for", sets.List(unwanted))
			}
		})
	}
}

func TestLacking(t *testing.T) {
	var many []string
	for i := range mostNamed + 2 {
		many = append(many, fmt.Sprintf("get things%d", i))
	}
	expect(t, (&checker{}).judgeLacking(nil, 7), OK, "The caller has all 7 permissions")
	expect(t, (&checker{}).judgeLacking(many, 20), Error, "get things9, and 2 more. Install as somebody who has them")
	expect(t, (&checker{Options: Options{ServiceAccount: "a/b"}}).judgeLacking(many[:1], 20), Error, "ServiceAccount a/b lacks: get things0.")
}

func TestPrint(t *testing.T) {
	found := []Finding{
		{ID: "fine", State: OK, Message: "All is well."},
		{ID: "turtles", State: Error, Message: "Hostile \x1b[2J\nrancher.", Remedy: "Do\u202e this."},
	}
	for form, want := range map[string]string{
		"": "STATE   CHECK     FOUND\nok      fine      All is well.\nerror   turtles   Hostile \ufffd[2J rancher.\n\nturtles: Do\ufffd this.\n",
		"json": `{
  "kind": "CheckFindingList",
  "apiVersion": "archelon.io/v1alpha1",
  "items": [
    {
      "id": "fine",
      "state": "ok",
      "message": "All is well."
    },
    {
      "id": "turtles",
      "state": "error",
      "message": "Hostile \u001b[2J\nrancher.",
      "remedy": "Do` + "\u202e" + ` this."
    }
  ]
}
`,
	} {
		out := &bytes.Buffer{}
		if err := (&printer{form: form, headers: true, out: out}).write(found); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	}
	if !errors.Is(worst(found), ErrMissing) || worst(found[:1]) != nil || worst([]Finding{{State: Warning}}) != nil {
		t.Error("warnings count, or errors do not")
	}
}

func TestOptions(t *testing.T) {
	for want, args := range map[string][]string{
		`--output is "xml"; it can be json or yaml`:                        {"-o", "xml"},
		"--timeout must be greater than zero":                              {"--timeout=0s"},
		`--service-account is "archelon"; it has to be <namespace>/<name>`: {"--service-account=archelon", "--server=https://127.0.0.1:1"},
		`unknown command "now" for "check"`:                                {"now"},
	} {
		g := featuregate.NewFeatureGate()
		cmd := Command(nil, g)
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
