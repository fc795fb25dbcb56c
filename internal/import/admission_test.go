package importer

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

const importLabel = "cluster-api.cattle.io/rancher-auto-import"

func labelled(value string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) { c.Labels = map[string]string{importLabel: value} }
}

func named(name string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) { c.Name = name }
}

// policy is the admission policy of the chart, as an API server evaluates it.
type policy struct {
	matches, validation, message plugincel.ConditionEvaluator
}

// expression is one of its expressions.
type expression struct {
	name, text string
	returns    *cel.Type
}

func (e expression) GetName() string          { return e.name }
func (e expression) GetExpression() string    { return e.text }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{e.returns} }

func policyFile(tb testing.TB) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "charts", "archelon", "files", "admission.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// newPolicy compiles the policy with what Kubernetes 1.30 knows, the oldest that the chart is for.
func newPolicy(tb testing.TB) *policy {
	tb.Helper()
	var spec admissionregistrationv1.ValidatingAdmissionPolicySpec
	if err := yaml.UnmarshalStrict(policyFile(tb), &spec); err != nil {
		tb.Fatal(err)
	}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, 30)))
	if err != nil {
		tb.Fatal(err)
	}
	var known plugincel.OptionalVariableDeclarations
	for _, v := range spec.Variables {
		variable := expression{v.Name, v.Expression, cel.AnyType}
		if result := compiler.CompileAndStoreVariable(variable, known, environment.NewExpressions); result.Error != nil {
			tb.Fatalf("variable %s: %v", v.Name, result.Error)
		}
	}
	if len(spec.MatchConditions) != 1 || len(spec.Validations) != 1 {
		tb.Fatalf("got %d conditions and %d validations, want one of each", len(spec.MatchConditions), len(spec.Validations))
	}
	compile := func(text string, returns *cel.Type) plugincel.ConditionEvaluator {
		compiled := compiler.CompileCondition(
			[]plugincel.ExpressionAccessor{expression{text: text, returns: returns}}, known, environment.NewExpressions)
		if errs := compiled.CompilationErrors(); len(errs) > 0 {
			tb.Fatalf("%s: %v", text, errs)
		}
		return compiled
	}
	return &policy{
		matches:    compile(spec.MatchConditions[0].Expression, cel.BoolType),
		validation: compile(spec.Validations[0].Expression, cel.BoolType),
		message:    compile(spec.Validations[0].MessageExpression, cel.StringType),
	}
}

// judge returns what the policy says about a request, nothing if it admits the request. Without an
// old object it is a creation.
func (p *policy) judge(tb testing.TB, old, now *clusterv1.Cluster) string {
	tb.Helper()
	kind := clusterv1.GroupVersion.WithKind("Cluster")
	resource := clusterv1.GroupVersion.WithResource("clusters")
	attributes := &admission.VersionedAttributes{VersionedKind: kind, VersionedObject: now}
	if old == nil {
		attributes.Attributes = admission.NewAttributesRecord(
			now, nil, kind, now.Namespace, now.Name, resource, "", admission.Create, nil, false, nil)
	} else {
		attributes.VersionedOldObject = old
		attributes.Attributes = admission.NewAttributesRecord(
			now, old, kind, now.Namespace, now.Name, resource, "", admission.Update, nil, false, nil)
	}
	request := plugincel.CreateAdmissionRequest(
		attributes.Attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(kind))
	if evaluate(tb, p.matches, attributes, request).Value() == false {
		return ""
	}
	if evaluate(tb, p.validation, attributes, request).Value() == true {
		return ""
	}
	text, ok := evaluate(tb, p.message, attributes, request).Value().(string)
	if !ok || text == "" || strings.Contains(text, "\n") || len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes {
		tb.Errorf("the API server would not show the message %q", text)
	}
	return text
}

// evaluate fails the test where an API server would give up, because of an error or of the cost.
func evaluate(
	tb testing.TB, e plugincel.ConditionEvaluator, attributes *admission.VersionedAttributes, request *admissionv1.AdmissionRequest,
) ref.Val {
	tb.Helper()
	results, _, err := e.ForInput(
		tb.Context(), attributes, request, plugincel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
	if err != nil {
		tb.Fatal(err)
	}
	if results[0].Error != nil {
		tb.Fatal(results[0].Error)
	}
	return results[0].EvalResult
}

// readers are those of the annotations that the policy knows.
func readers() []struct {
	key  string
	read func(map[string]string) error
} {
	return []struct {
		key  string
		read func(map[string]string) error
	}{
		{"archelon.io/agent-delivery", ignoreValue(agent.ManualDelivery)},
		{"archelon.io/agent-env", func(a map[string]string) error {
			if _, err := agentEnv(a); len(a["archelon.io/agent-env"]) > maxAgentEnvBytes {
				return err
			}
			return nil // The rest is for the condition alone.
		}},
		{"archelon.io/display-name", ignoreValue(displayName)},
		{"archelon.io/early-import", ignoreValue(Rules{}.early)},
		{"archelon.io/external-fleet", ignoreValue(externalFleet)},
		{"archelon.io/fleet-workspace", ignoreValue(fleetWorkspace)},
		{"archelon.io/import-management-cluster", ignoreValue(importManagementCluster)},
		{"archelon.io/imported", ignoreValue(keptOut)},
		{"archelon.io/kubeconfig-context", ignoreValue(kubeconfig.Context)},
		{"archelon.io/kubeconfig-secret", func(a map[string]string) error {
			_, _, err := kubeconfig.Secret(a)
			return err
		}},
		{"archelon.io/managed-by", func(a map[string]string) error {
			_, err := importerNamed(a["archelon.io/managed-by"])
			return err
		}},
	}
}

func ignoreValue[T any](read func(map[string]string) (T, error)) func(map[string]string) error {
	return func(annotations map[string]string) error {
		_, err := read(annotations)
		return err
	}
}

// reported is what the condition would say of a new cluster, in the form of the policy.
func reported(cluster *clusterv1.Cluster) string {
	var problems []string
	if value, ok := cluster.Labels[importLabel]; ok {
		want, err := parseChoice(value)
		who, _ := importerNamed(cluster.Annotations["archelon.io/managed-by"])
		if err != nil {
			problems = append(problems, "metadata.labels["+importLabel+"]: "+err.Error())
		} else if err := fits("name", cluster.Name); err != nil && want == include && who != "rancher-turtles" {
			problems = append(problems, "metadata.name: "+err.Error()+", or without label "+importLabel)
		}
	}
	for _, reader := range readers() {
		if err := reader.read(cluster.Annotations); err != nil {
			problems = append(problems, "metadata.annotations["+reader.key+"]: "+err.Error())
		}
	}
	return strings.Join(problems, "; ")
}

func TestPolicyRefuses(t *testing.T) {
	p := newPolicy(t)
	long := named(strings.Repeat("a", 64))
	tests := map[string]struct {
		reason  string
		cluster *clusterv1.Cluster
		want    string
	}{
		"Plain":      {reason: "nothing of ours, nothing to say", cluster: testCluster()},
		"Selected":   {reason: "a boolean", cluster: testCluster(labelled("true"))},
		"Excluded":   {reason: "a boolean as Go reads it", cluster: testCluster(labelled("F"))},
		"Label":      {reason: "never silently false", cluster: testCluster(labelled("yes")), want: `metadata.labels[cluster-api.cattle.io/rancher-auto-import]: set it to "true" to import, or to "false" to un-import`},
		"NoLabel":    {reason: "empty is no boolean", cluster: testCluster(labelled("")), want: `metadata.labels[cluster-api.cattle.io/rancher-auto-import]: set it to "true" to import, or to "false" to un-import`},
		"Env":        {reason: "a map in YAML", cluster: testCluster(annotated("archelon.io/agent-env", "A: b"))},
		"EnvNoMap":   {reason: "no policy can read YAML", cluster: testCluster(annotated("archelon.io/agent-env", "[1]"))},
		"EnvLarge":   {reason: "nobody needs as much", cluster: testCluster(annotated("archelon.io/agent-env", strings.Repeat("s3cret", 1366))), want: `metadata.annotations[archelon.io/agent-env]: it must have at most 8 KiB`},
		"Name":       {reason: "no name for Rancher", cluster: testCluster(annotated("archelon.io/display-name", "Prod")), want: `metadata.annotations[archelon.io/display-name]: it must be a name that Rancher accepts for a cluster: at most 63 lower case letters, digits and dashes, with no dash at either end`},
		"Workspace":  {reason: "no name of a workspace", cluster: testCluster(annotated("archelon.io/fleet-workspace", "a/b")), want: `metadata.annotations[archelon.io/fleet-workspace]: it must be the name of a Fleet workspace`},
		"Fleet":      {reason: "it would be taken for false", cluster: testCluster(annotated("archelon.io/external-fleet", "yes")), want: `metadata.annotations[archelon.io/external-fleet]: it must be "true" or "false"`},
		"Rancher":    {reason: "it would be taken for false", cluster: testCluster(annotated("archelon.io/import-management-cluster", "2")), want: `metadata.annotations[archelon.io/import-management-cluster]: it must be "true" or "false"`},
		"Kubeconfig": {reason: "a Secret of another namespace", cluster: testCluster(annotated("archelon.io/kubeconfig-secret", "kube-system/a/b")), want: `metadata.annotations[archelon.io/kubeconfig-secret]: it must be the name of a Secret in the namespace of this Cluster, or NAME/KEY`},
		"Context":    {reason: "it would be a part of lines", cluster: testCluster(annotated("archelon.io/kubeconfig-context", "a\nb")), want: `metadata.annotations[archelon.io/kubeconfig-context]: it must be the name of a context: at most 253 bytes, with no control characters`},
		"Managed":    {reason: "neither of the two", cluster: testCluster(annotated("archelon.io/managed-by", "turtles")), want: `metadata.annotations[archelon.io/managed-by]: it must be "archelon" or "rancher-turtles"`},
		"Unset": {reason: "an empty annotation is as none", cluster: testCluster(annotated("archelon.io/agent-env", ""), annotated("archelon.io/display-name", ""),
			annotated("archelon.io/external-fleet", ""), annotated("archelon.io/fleet-workspace", ""), annotated("archelon.io/import-management-cluster", ""), annotated("archelon.io/managed-by", ""))},
		"LongName":     {reason: "no owner label holds it", cluster: testCluster(long, labelled("true")), want: `metadata.name: the name of this Cluster has 64 characters, and Rancher accepts at most 63. Create this Cluster with a shorter name, or without label cluster-api.cattle.io/rancher-auto-import`},
		"LongUnasked":  {reason: "it is not to be imported", cluster: testCluster(long)},
		"LongExcluded": {reason: "it is not to be imported", cluster: testCluster(long, labelled("false"))},
		"LongTurtles":  {reason: "it is not to be imported here", cluster: testCluster(long, labelled("true"), annotated("archelon.io/managed-by", "rancher-turtles"))},
		"Several": {
			reason:  "every problem is told, not the first, and always in the same order",
			cluster: testCluster(labelled("yes"), annotated("archelon.io/managed-by", "me"), annotated("archelon.io/fleet-workspace", "A")),
			want: `metadata.labels[cluster-api.cattle.io/rancher-auto-import]: set it to "true" to import, or to "false" to un-import; ` +
				`metadata.annotations[archelon.io/fleet-workspace]: it must be the name of a Fleet workspace; ` +
				`metadata.annotations[archelon.io/managed-by]: it must be "archelon" or "rancher-turtles"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, p.judge(t, nil, tc.cluster)); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.reason, diff)
			}
			if got := reported(tc.cluster); got != tc.want {
				t.Errorf("the policy says %q, the condition %q", tc.want, got)
			}
		})
	}
}

func TestPolicyAdmitsWhatWasThere(t *testing.T) {
	p := newPolicy(t)
	bad := annotated("archelon.io/managed-by", "me")
	managed := `metadata.annotations[archelon.io/managed-by]: it must be "archelon" or "rancher-turtles"`
	deleted := func(c *clusterv1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	long := named(strings.Repeat("a", 64))
	tests := map[string]struct {
		reason   string
		old, now *clusterv1.Cluster
		want     string
	}{
		"Kept":         {reason: "nobody is locked out by what was there before", old: testCluster(bad), now: testCluster(bad, annotated("other", "x"))},
		"Added":        {reason: "a mistake of today", old: testCluster(), now: testCluster(bad), want: managed},
		"Replaced":     {reason: "so is one in place of a good value", old: testCluster(annotated("archelon.io/managed-by", "archelon")), now: testCluster(bad), want: managed},
		"OtherMistake": {reason: "another value is a mistake of today", old: testCluster(bad), now: testCluster(annotated("archelon.io/managed-by", "you")), want: managed},
		"LabelKept":    {reason: "the same holds for the label", old: testCluster(labelled("yes")), now: testCluster(labelled("yes"), annotated("other", "x"))},
		"LabelEmptied": {reason: "an empty label is another than none", old: testCluster(), now: testCluster(labelled("")), want: `metadata.labels[cluster-api.cattle.io/rancher-auto-import]: set it to "true" to import, or to "false" to un-import`},
		"Mended":       {reason: "what is right may always be written", old: testCluster(bad), now: testCluster(annotated("archelon.io/managed-by", "archelon"))},
		"Removed":      {reason: "to remove it mends it", old: testCluster(bad, labelled("yes")), now: testCluster()},
		"Emptied":      {reason: "an empty annotation is as none", old: testCluster(bad), now: testCluster(annotated("archelon.io/managed-by", ""))},
		"OneOfTwo":     {reason: "each key is judged by itself", old: testCluster(bad), now: testCluster(bad, annotated("archelon.io/external-fleet", "maybe")), want: `metadata.annotations[archelon.io/external-fleet]: it must be "true" or "false"`},
		"Deleted":      {reason: "finalizers must come off", old: testCluster(), now: testCluster(bad, labelled("yes"), deleted)},
		"LongSelected": {reason: "it is asked for now", old: testCluster(long), now: testCluster(long, labelled("true")), want: reported(testCluster(long, labelled("true")))},
		"LongBefore":   {reason: "it was asked for before", old: testCluster(long, labelled("true")), now: testCluster(long, labelled("true"), annotated("other", "x"))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, p.judge(t, tc.old, tc.now)); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

// Users must neither be refused what would work, nor read other words in the condition than in the refusal.
func TestPolicyAgreesWithTheCondition(t *testing.T) {
	p := newPolicy(t)
	values := []string{
		"", " ", "0", "1", "2", "t", "T", "f", "F", "true", "True", "TRUE", "tRUE", "false", "False", "FALSE", "yes", "no", "true ", "a", "a-", "-a", "-",
		"a-b", "a.b", "a/b", "a/b/c", "a/", "/a", "a/.", "a/..", "a/..b", "a/.b", "a/A_b.c", "a..b", "a/\u009b", "a\tb", "a\x7f", "\u200b", "a/b\n",
		strings.Repeat("a", 253), strings.Repeat("a", 254), "a/" + strings.Repeat("a", 253), "a/" + strings.Repeat("a", 254), strings.Repeat("ä", 127), "A", "ä", "a\n", "archelon", "rancher-turtles", "turtles", "Archelon", "A: b", "{}", "[1]", "null",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("ä", 32),
		strings.Repeat("a", 8<<10), strings.Repeat("a", 8<<10+1), strings.Repeat("ä", 4<<10), strings.Repeat("ä", 4<<10) + "a",
	}
	for _, value := range values {
		for _, reader := range readers() {
			cluster := testCluster(annotated(reader.key, value))
			if got, want := p.judge(t, nil, cluster), reported(cluster); got != want {
				t.Errorf("%s=%.80q: the policy says %q, the condition %q", reader.key, value, got, want)
			}
		}
		for _, length := range []int{4, 63, 64, 253} {
			cluster := testCluster(labelled(value), named(strings.Repeat("a", length)))
			if got, want := p.judge(t, nil, cluster), reported(cluster); got != want {
				t.Errorf("label %.80q, %d characters: the policy says %q, the condition %q", value, length, got, want)
			}
		}
	}
}

// A key that is misspelled in one of the two would never be refused.
func TestPolicyKnowsTheKeys(t *testing.T) {
	var want []string
	for _, reader := range readers() {
		want = append(want, reader.key)
	}
	got := regexp.MustCompile(`'(archelon\.io/[a-z-]+)'`).FindAllStringSubmatch(string(policyFile(t)), -1)
	var found []string
	for _, match := range got {
		found = append(found, match[1])
	}
	slices.Sort(found)
	if diff := cmp.Diff(want, slices.Compact(found)); diff != "" {
		t.Errorf("(-readers +policy)\n%s", diff)
	}
}

// An object may have 256 KiB of annotations. Whatever they are, the rules must not cost more than
// an API server spends on them.
func TestPolicyBoundsItsCost(t *testing.T) {
	p := newPolicy(t)
	const limit = 256 << 10
	many := testCluster(annotated("archelon.io/managed-by", "me"))
	for i := range limit / 8 {
		many.Annotations[fmt.Sprintf("a%06d", i)] = ""
	}
	clusters := []*clusterv1.Cluster{many}
	for _, reader := range readers() {
		for _, unit := range []string{"a", "a-", "ä", "-"} {
			clusters = append(clusters, testCluster(labelled("true"), annotated(reader.key, strings.Repeat(unit, limit/len(unit)))))
		}
	}
	for _, cluster := range clusters {
		if p.judge(t, nil, cluster) == "" {
			t.Error("it was admitted")
		}
		if got := p.judge(t, cluster, cluster); got != "" {
			t.Errorf("an update that changes nothing is refused: %s", got)
		}
		other := cluster.DeepCopy()
		for key := range other.Annotations {
			other.Annotations[key] += "!"
		}
		if p.judge(t, cluster, other) == "" {
			t.Error("another mistake was admitted")
		}
	}
}

// FuzzPolicy looks for metadata about which the policy and the condition do not agree.
func FuzzPolicy(f *testing.F) {
	f.Add("prod", "yes", true, "HTTPS_PROXY=http://user:hunter2@proxy.example.com", "a/b", "maybe", "me", "Prod", "2", "a/b/c", "a\nb")
	f.Add(strings.Repeat("a", 64), "true", true, strings.Repeat("x", 8<<10+1), "", "", "archelon", "", "", "a/..", "\u0085")
	f.Add("prod", "", false, "A: &a [*a]", "\x00", "T", "rancher-turtles", "-", "f", "a.b/c_D", strings.Repeat("ä", 127))
	p := newPolicy(f)
	f.Fuzz(func(t *testing.T, name, label string, has bool, env, workspace, external, managed, display, management, secret, context string) {
		if name == "" || !utf8.ValidString(name) || len(name) != utf8.RuneCountInString(name) {
			t.Skip("an API server has no object of such a name")
		}
		cluster := testCluster(named(name))
		for key, value := range map[string]string{
			"archelon.io/agent-env": env, "archelon.io/fleet-workspace": workspace, "archelon.io/external-fleet": external,
			"archelon.io/managed-by": managed, "archelon.io/display-name": display, "archelon.io/import-management-cluster": management,
			"archelon.io/kubeconfig-secret": secret, "archelon.io/kubeconfig-context": context,
		} {
			if !utf8.ValidString(value) {
				t.Skip("no request can have it")
			}
			annotated(key, value)(cluster)
		}
		if has && utf8.ValidString(label) {
			labelled(label)(cluster)
		}
		said := p.judge(t, nil, cluster)
		if want := reported(cluster); said != want {
			t.Errorf("the policy says %q, the condition %q", said, want)
		}
		if got := p.judge(t, cluster, cluster.DeepCopy()); got != "" {
			t.Errorf("an update that changes nothing is refused: %s", got)
		}
		if got := p.judge(t, testCluster(named(name)), cluster); got != said {
			t.Errorf("creation says %q, an update %q", said, got)
		}
	})
}
