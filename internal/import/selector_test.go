package importer

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestSelector(t *testing.T) {
	ofClass := func(namespace, name string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Spec.Topology.ClassRef = clusterv1.ClusterClassRef{Namespace: namespace, Name: name}
		}
	}
	inEnv := func(value string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) { c.Labels = map[string]string{"env": value} }
	}
	tests := map[string]struct {
		reason              string
		text                string
		classes, namespaces []string
		change              []func(*clusterv1.Cluster)
		want                bool
	}{
		"Nothing":         {reason: "nothing is imported by default"},
		"Labels":          {reason: "its labels fit", text: "env in (prod,test)", change: []func(*clusterv1.Cluster){inEnv("prod")}, want: true},
		"OtherLabels":     {reason: "they do not", text: "env=prod", change: []func(*clusterv1.Cluster){inEnv("dev")}},
		"Class":           {reason: "its class fits", classes: []string{"other", "quick"}, change: []func(*clusterv1.Cluster){ofClass("", "quick")}, want: true},
		"ClassElsewhere":  {reason: "in whatever namespace", classes: []string{"quick"}, change: []func(*clusterv1.Cluster){ofClass("classes", "quick")}, want: true},
		"ClassOfTheirs":   {reason: "without a namespace it is its own", classes: []string{"tenant/quick"}, change: []func(*clusterv1.Cluster){ofClass("", "quick")}, want: true},
		"ClassOfOthers":   {reason: "a class of the same name of somebody else", classes: []string{"classes/quick"}, change: []func(*clusterv1.Cluster){ofClass("", "quick")}},
		"NoClass":         {reason: "it has none", classes: []string{"quick"}},
		"Namespace":       {reason: "its namespace fits", namespaces: []string{"a", "tenant"}, want: true},
		"OtherNamespace":  {reason: "it does not", namespaces: []string{"tenant-b"}},
		"Everywhere":      {reason: "all of the instance", namespaces: []string{"*"}, want: true},
		"All":             {reason: "all parts fit", text: "env=prod", classes: []string{"quick"}, namespaces: []string{"tenant"}, change: []func(*clusterv1.Cluster){inEnv("prod"), ofClass("", "quick")}, want: true},
		"AllButLabels":    {reason: "all parts have to", text: "env=prod", classes: []string{"quick"}, namespaces: []string{"tenant"}, change: []func(*clusterv1.Cluster){ofClass("", "quick")}},
		"AllButClass":     {reason: "all parts have to", text: "env=prod", classes: []string{"quick"}, namespaces: []string{"tenant"}, change: []func(*clusterv1.Cluster){inEnv("prod")}},
		"AllButNamespace": {reason: "all parts have to", text: "env=prod", classes: []string{"quick"}, namespaces: []string{"a"}, change: []func(*clusterv1.Cluster){inEnv("prod"), ofClass("", "quick")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := NewSelector(tc.text, tc.classes, tc.namespaces)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.selects(testCluster(tc.change...)); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// The label wins over the selector, on the Cluster and on the Namespace, and so does one that cannot be read.
func TestTheLabelWinsOverTheSelector(t *testing.T) {
	const key = "cluster-api.cattle.io/rancher-auto-import"
	ofRancher := func(c *clusterv1.Cluster) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"}}
	}
	tests := map[string]struct {
		reason             string
		cluster, namespace string
		change             func(*clusterv1.Cluster)
		want               choice
		wantErr            bool
	}{
		"NoLabel":         {reason: "the selector decides", want: include},
		"False":           {reason: "the label of the Cluster wins", cluster: "false", want: exclude},
		"FalseAbove":      {reason: "the label of the Namespace wins", namespace: "false", want: exclude},
		"FalseBelowTrue":  {reason: "the Cluster wins over its Namespace", cluster: "false", namespace: "true", want: exclude},
		"Unreadable":      {reason: "nobody knows what was meant", cluster: "maybe", want: leave, wantErr: true},
		"UnreadableAbove": {reason: "nobody knows what was meant", namespace: "maybe", want: leave, wantErr: true},
		"Provisioned":     {reason: "Rancher has it already", change: ofRancher, want: leave},
		"ProvisionedTrue": {reason: "somebody asks for it", change: ofRancher, cluster: "true", want: include},
	}
	everything, err := NewSelector("", nil, []string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := seen(testCluster())
			if tc.change != nil {
				tc.change(o.cluster)
			}
			o.cluster.Labels, o.namespace = map[string]string{}, map[string]string{}
			if tc.cluster != "" {
				o.cluster.Labels[key] = tc.cluster
			}
			if tc.namespace != "" {
				o.namespace[key] = tc.namespace
			}
			d := &deciding{Rules: Rules{Selector: everything}, Observation: o}
			if got, err := d.wanted(); got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("%s: got %v, %v, want %v", tc.reason, got, err, tc.want)
			}
		})
	}
}

// What is imported stays imported when nothing selects it any more, and its condition says so.
func TestAClusterThatNothingSelectsStaysImported(t *testing.T) {
	for name, tc := range map[string]struct {
		rules Rules
		told  bool
	}{
		"Unselected": {told: true},
		"Selected":   {rules: Rules{Selector: Selector{namespaces: []string{EveryNamespace}}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := seen(testCluster())
			o.intent = intentUnknown
			o.answered[askPrincipal{}.String()] = true
			o.cluster.Annotations = map[string]string{}
			tc.rules.Active = decideV3{}
			for _, known := range []state{claimedV3, up, v3(), management("c-abcde", "record-1", "Connected")} {
				known(o, &tc.rules)
			}
			tc.rules.Self.Name = "archelon"
			d := tc.rules.Decide(*o, decideNow)
			if d.Intent != intentImport || !d.Outcome.IsDone() {
				t.Fatalf("got %s", inOneLine(d))
			}
			got := conditionFor(o, d, nil)
			if told := strings.Contains(got.Message, "no label or selector selects this Cluster"); got.Status != metav1.ConditionTrue || told != tc.told {
				t.Errorf("got %s %s: %q", got.Status, got.Reason, got.Message)
			}
		})
	}
}
