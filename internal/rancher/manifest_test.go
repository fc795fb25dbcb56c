package rancher

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/internal/outcome"
)

// agentManifest returns a manifest as Rancher renders it.
func agentManifest(tb testing.TB) []byte {
	tb.Helper()
	data, err := os.ReadFile("testdata/manifest.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestParseManifest(t *testing.T) {
	manifest, err := ParseManifest(agentManifest(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range manifest.Objects() {
		got = append(got, describe(object))
	}
	want := []string{
		"ClusterRole proxy-clusterrole-kubeapiserver",
		"ClusterRoleBinding proxy-role-binding-kubernetes-master",
		"Namespace cattle-system",
		"ServiceAccount cattle-system/cattle",
		"ClusterRoleBinding cattle-admin-binding",
		"Secret cattle-system/cattle-credentials-5ec1f7e700",
		"Secret cattle-system/pull-secret",
		"ClusterRole cattle-admin",
		"PodDisruptionBudget cattle-system/cattle-cluster-agent-pod-disruption-budget",
		"Deployment cattle-system/cattle-cluster-agent",
		"DaemonSet cattle-system/kube-api-auth",
		"Service cattle-system/cattle-cluster-agent",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if manifest.CredentialsSecret() != "cattle-credentials-5ec1f7e700" {
		t.Errorf("credentials Secret: %s", manifest.CredentialsSecret())
	}
	for _, object := range manifest.Objects() {
		if object.GetName() == "cattle-admin-binding" && object.GetNamespace() != "" {
			t.Error("a cluster-scoped object keeps the namespace that Rancher gives it")
		}
		if _, found := object.Object["status"]; found {
			t.Errorf("%s keeps its status", describe(object))
		}
		object.SetName("changed")
	}
	if manifest.Objects()[0].GetName() == "changed" {
		t.Error("a caller can change the manifest")
	}
}

func TestParseManifestRefuses(t *testing.T) {
	valid := string(agentManifest(t))
	with := func(document string) string { return valid + "\n---\n" + document }
	without := func(from, to string) string {
		if !strings.Contains(valid, from) {
			t.Fatalf("the manifest does not hold %q", from)
		}
		return strings.ReplaceAll(valid, from, to)
	}
	before := func(text string) string {
		start, _, found := strings.Cut(valid, text)
		if !found {
			t.Fatalf("the manifest does not hold %q", text)
		}
		return start
	}
	cases := map[string]struct {
		reason string
		data   string
		want   string
	}{
		"Nothing":       {reason: "an empty body is no manifest", data: "", want: "ManifestEmpty"},
		"Blank":         {reason: "separators and comments are no objects", data: "---\n---\n# nothing\n---\n\n", want: "ManifestEmpty"},
		"HTML":          {reason: "a login page came", data: "\n <!DOCTYPE html><html>Log in</html>", want: "ManifestIsHTML"},
		"HTMLWithBOM":   {reason: "some servers begin with a byte order mark", data: "\xef\xbb\xbf<html>", want: "ManifestIsHTML"},
		"ErrorText":     {reason: "this is Rancher's own error text", data: "cluster not found or invalid token", want: "ManifestNotYAML"},
		"JSONError":     {reason: "this is an API error, not an object", data: `{"type":"error","status":500}`, want: "ManifestNotYAML"},
		"List":          {reason: "a list is no object", data: "[1, 2]", want: "ManifestNotYAML"},
		"Binary":        {reason: "an image is no text", data: "\x89PNG\r\n\x1a\n\x00\x00", want: "ManifestNotYAML"},
		"BrokenYAML":    {reason: "what cannot be parsed is refused", data: with("a: b: c"), want: "ManifestNotYAML"},
		"TabIndent":     {reason: "YAML knows no tabs", data: with("kind:\n\tname: x"), want: "ManifestNotYAML"},
		"NoKind":        {reason: "an object has a kind", data: with("apiVersion: v1\nmetadata: {name: x}"), want: "ManifestNotYAML"},
		"KindNoString":  {reason: "a kind is a string", data: with("apiVersion: v1\nkind: [Secret]\nmetadata: {name: x}"), want: "ManifestNotYAML"},
		"TwoInOne":      {reason: "what the parser would skip is refused", data: with("kind: A\n...\nkind: B\n"), want: "ManifestNotYAML"},
		"Separator":     {reason: "what follows a separator on its line would be lost", data: valid + "\n--- {kind: Secret}\n", want: "ManifestNotYAML"},
		"Anchors":       {reason: "aliases can expand to gigabytes", data: with("apiVersion: v1\nkind: Secret\nmetadata: &m {name: x}\ndata: *m"), want: "ManifestNotYAML"},
		"Foreign":       {reason: "nothing is put beside the agent's namespace", data: with("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: kube-system}"), want: "ManifestForeignObject"},
		"BadVersion":    {reason: "a version is part of a URL", data: with("apiVersion: apps/..\nkind: StatefulSet\nmetadata: {name: x, namespace: cattle-system}"), want: "ManifestForeignObject"},
		"EveryPod":      {reason: "it would be the class of all Pods without one", data: with("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nvalue: 1\nglobalDefault: true"), want: "ManifestForeignObject"},
		"ForeignGroup":  {reason: "the group counts as well", data: with("apiVersion: evil.example.com/v1\nkind: Deployment\nmetadata: {name: x, namespace: cattle-system}"), want: "ManifestForeignObject"},
		"OddKind":       {reason: "what a kind says is not quoted blindly", data: with("apiVersion: v1\nkind: " + testToken + "\nmetadata: {name: x}"), want: "ManifestForeignObject"},
		"KubeList":      {reason: "a List could hold anything", data: with("apiVersion: v1\nkind: List\nitems: []"), want: "ManifestForeignObject"},
		"OtherSpace":    {reason: "the agent lives in cattle-system", data: with("apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: kube-system}"), want: "ManifestForeignObject"},
		"NoSpace":       {reason: "it would land in a default namespace", data: with("apiVersion: v1\nkind: Secret\nmetadata: {name: x}"), want: "ManifestForeignObject"},
		"OtherNewSpace": {reason: "no other namespace is made", data: with("apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}"), want: "ManifestForeignObject"},
		"NoName":        {reason: "nothing is applied without a name", data: with("apiVersion: v1\nkind: ClusterRole\nmetadata: {generateName: x}"), want: "ManifestForeignObject"},
		"PathName":      {reason: "a name is part of a URL", data: with("apiVersion: v1\nkind: ClusterRole\nmetadata: {name: ../../x}"), want: "ManifestForeignObject"},
		"BadMetadata":   {reason: "metadata has a form", data: with("apiVersion: v1\nkind: ClusterRole\nmetadata: {name: x, labels: [a]}"), want: "ManifestForeignObject"},
		"NoMetadata":    {reason: "metadata is an object", data: with("apiVersion: v1\nkind: ClusterRole\nmetadata: x"), want: "ManifestForeignObject"},
		"Finalizers":    {reason: "an object with a finalizer could not be deleted", data: with("apiVersion: v1\nkind: ClusterRole\nmetadata: {name: x, finalizers: [a/b]}"), want: "ManifestForeignObject"},
		"Twice":         {reason: "the second would win silently", data: with("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: cattle, namespace: cattle-system}"), want: "ManifestForeignObject"},
		"NoDeployment":  {reason: "without an agent nothing connects", data: without("name: cattle-cluster-agent\n  namespace: cattle-system\n  annotations", "name: other\n  namespace: cattle-system\n  annotations"), want: "ManifestIncomplete"},
		"NoSecret":      {reason: "an agent without credentials never connects", data: without("name: cattle-credentials-5ec1f7e700\n  namespace", "name: other\n  namespace"), want: "ManifestIncomplete"},
		"NoEnv":         {reason: "the agent must name its credentials", data: without("name: CATTLE_CREDENTIAL_NAME", "name: OTHER"), want: "ManifestIncomplete"},
		"NoToken":       {reason: "the credentials must hold a token", data: without("  token: dG9rZW4=", "  token: \"\""), want: "ManifestIncomplete"},
		"NoURL":         {reason: "the credentials must hold a URL", data: without("  url: aHR0cHM6Ly9yYW5jaGVyLmV4YW1wbGUuY29t\n", ""), want: "ManifestIncomplete"},
		"BadBase64":     {reason: "data of a Secret is base64", data: without("  token: dG9rZW4=", "  token: '%'"), want: "ManifestIncomplete"},
		"OddDeployment": {reason: "a Deployment has a form", data: without("      containers:\n        - name: cluster-register", "      containers: none\n      other:\n        - name: cluster-register"), want: "ManifestIncomplete"},
		"HugeObject":    {reason: "no API server stores it", data: with("apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: cattle-system}\ndata: {a: " + strings.Repeat("a", maxObjectBytes) + "}"), want: "ManifestTooLarge"},
		"Many":          {reason: "each object is a request", data: valid + manyAccounts(maxObjects), want: "ManifestTooLarge"},
		"LongLastLine":  {reason: "a last line without an end counts", data: with("{kind: " + strings.Repeat("A", 10_000)), want: "ManifestNotYAML"},
		"Cut":           {reason: "the end was lost", data: before("kind: Deployment"), want: "ManifestNotYAML"},
		"CutAtDocument": {reason: "the last documents were lost", data: before("apiVersion: apps/v1"), want: "ManifestIncomplete"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseManifest([]byte(tc.data))
			wantProblem(t, err, outcome.KindFail, tc.want)
			wantNoSecret(t, err)
			if t.Failed() {
				t.Log(tc.reason)
			}
		})
	}
}

// A newer Rancher may add kinds. What reaches no further than the agent passes.
func TestParseManifestOfANewerRancher(t *testing.T) {
	for kind, tc := range map[string]struct {
		reason   string
		metadata string
		refused  bool
	}{
		"scheduling.k8s.io/v1 PriorityClass":               {reason: "as Rancher applies later by itself"},
		"scheduling.k8s.io/v1  PriorityClass":              {reason: "Rancher gives cluster-scoped objects a namespace", metadata: "namespace: cattle-system"},
		"v1 ConfigMap":                                     {reason: "it is beside the agent", metadata: "namespace: cattle-system"},
		"batch/v1 Job":                                     {reason: "it runs beside the agent", metadata: "namespace: cattle-system"},
		"rbac.authorization.k8s.io/v1 RoleBinding":         {reason: "it grants what is beside the agent", metadata: "namespace: cattle-system"},
		"policy/v2 PodDisruptionBudget":                    {reason: "kinds get new versions", metadata: "namespace: cattle-system"},
		"batch/v1  Job":                                    {reason: "nothing runs elsewhere", metadata: "namespace: kube-system", refused: true},
		"v1 Pod":                                           {reason: "nor in the namespace of whoever asks", metadata: "namespace: default", refused: true},
		"v1 Node":                                          {reason: "all namespaces run on it", refused: true},
		"v1 PersistentVolume":                              {reason: "Pods of all namespaces may get it", refused: true},
		"v1 PodList":                                       {reason: "it could hold anything", metadata: "namespace: cattle-system}\nitems: [] #", refused: true},
		"apps/v1 Namespace":                                {reason: "whatever group says that it has namespaces", refused: true},
		"networking.k8s.io/v1 IngressClass":                {reason: "it may be the one of all namespaces", refused: true},
		"storage.k8s.io/v1 StorageClass":                   {reason: "it may be the one of all namespaces", refused: true},
		"storage.k8s.io/v1 CSIDriver":                      {reason: "it may ask for tokens of all Pods", refused: true},
		"node.k8s.io/v1 RuntimeClass":                      {reason: "it may be the one of other Pods", refused: true},
		"resource.k8s.io/v1 DeviceClass":                   {reason: "it may be the one of other Pods", refused: true},
		"certificates.k8s.io/v1 CertificateSigningRequest": {reason: "it asks for any identity", refused: true},
		"flowcontrol.apiserver.k8s.io/v1 FlowSchema":       {reason: "it holds up other clients", refused: true},
		"apiregistration.k8s.io/v1 APIService":             {reason: "it answers in place of the API", refused: true},
		"apiextensions.k8s.io/v1 CustomResourceDefinition": {reason: "it changes the API", refused: true},
		"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": {reason: "it sees what anybody writes", refused: true},
		"admissionregistration.k8s.io/v1 MutatingWebhookConfiguration":   {reason: "and changes it", refused: true},
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":      {reason: "it refuses what anybody writes", refused: true},
		"admissionregistration.k8s.io/v9 MutatingAdmissionPolicyBinding": {reason: "in any version", refused: true},
		"admissionregistration.k8s.io/v1  ValidatingAdmissionPolicy":     {reason: "whatever namespace it says", metadata: "namespace: cattle-system", refused: true},
		"helm.cattle.io/v1 HelmChart":                                    {reason: "k3s installs it anywhere", metadata: "namespace: cattle-system", refused: true},
		"policy.networking.k8s.io/v1alpha1 AdminNetworkPolicy":           {reason: "only what Kubernetes has itself is known", refused: true},
		"cluster.x-k8s.io/v1beta2 Cluster":                               {reason: "only what Kubernetes has itself is known", metadata: "namespace: cattle-system", refused: true},
	} {
		t.Run(kind, func(t *testing.T) {
			words := strings.Fields(kind)
			added := fmt.Sprintf("\n---\napiVersion: %s\nkind: %s\nmetadata: {name: added, %s}\n", words[0], words[1], tc.metadata)
			manifest, err := ParseManifest(append(agentManifest(t), added...))
			if tc.refused {
				wantProblem(t, err, outcome.KindFail, "ManifestForeignObject")
			} else if err != nil || len(manifest.Objects()) != 13 {
				t.Errorf("got %v with %v", manifest, err)
			}
			if t.Failed() {
				t.Log(tc.reason)
			}
		})
	}
}

func manyAccounts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a%d, namespace: cattle-system}", i)
	}
	return b.String()
}

func TestParseManifestOfBombs(t *testing.T) {
	// Each level is ten times the one before: expanded it would not fit into any memory.
	var aliases strings.Builder
	aliases.WriteString("a0: &a0 " + strings.Repeat("x", 1000) + "\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&aliases, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	bombs := map[string][]byte{
		"Aliases": []byte(aliases.String()),
		"Nested":  bytes.Repeat([]byte("["), 1<<20),
		"Flow":    bytes.Repeat([]byte("{a: "), 1<<18),
		"Dashes":  bytes.Repeat([]byte("- "), 1<<19),
	}
	for name, bomb := range bombs {
		t.Run(name, func(t *testing.T) {
			_, err := ParseManifest(bomb)
			wantProblem(t, err, outcome.KindFail, "ManifestNotYAML")
		})
	}
}

// smallManifest is the least that is admitted. Small seeds keep the fuzzer from minimizing for minutes.
const smallManifest = `apiVersion: v1
kind: Secret
metadata: {name: c, namespace: cattle-system}
stringData: {url: u, token: t}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cattle-cluster-agent, namespace: cattle-system}
spec: {template: {spec: {containers: [{env: [{name: CATTLE_CREDENTIAL_NAME, value: c}]}]}}}
`

func FuzzParseManifest(f *testing.F) {
	if _, err := ParseManifest([]byte(smallManifest)); err != nil {
		f.Fatal(err)
	}
	f.Add(agentManifest(f))
	for _, seed := range []string{
		"", "---", "<html>", "cluster not found or invalid token", "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: cattle-system}\n",
		"a: &a [*a]", "apiVersion: v1\nkind: ClusterRole\nmetadata:\n  name: x\n  creationTimestamp: yesterday", "? [a]\n: b", "!!binary x", "kind: !!int 1",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: cattle-system, managedFields: [1]}", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, namespace: a}\n",
		"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nglobalDefault: 1", "{\"kind\":\"Secret\"}{", "a: .nan", "a: 0x7fffffffffffffffff",
	} {
		f.Add([]byte(seed))
		f.Add([]byte(smallManifest + "\n---\n" + seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		manifest, err := ParseManifest(data)
		if err != nil {
			var problem *outcome.Problem
			if manifest != nil || !errors.As(err, &problem) || problem.Reason == "" || problem.Message == "" {
				t.Errorf("a refusal that is no Problem: %v, %v", manifest, err)
			}
			return
		}
		for _, object := range manifest.Objects() {
			namespaced, known := scopeOf(object.GroupVersionKind())
			inside := object.GetNamespace() == agentNamespace
			if known && namespaced != inside || !known && (!passes(object.GroupVersionKind()) || !inside && object.GetNamespace() != "") {
				t.Errorf("admitted %s", describe(object))
			}
		}
		if manifest.CredentialsSecret() == "" {
			t.Error("admitted an agent without credentials")
		}
	})
}

// FuzzEvidentlyPlain looks for a document that skips the check for anchors and further documents, and must not.
func FuzzEvidentlyPlain(f *testing.F) {
	for _, seed := range []string{
		"", "a: b", "a: &a [*a]", "a: b\n---\nc: d", "a: b\r--- c", "---\na: b", "a: b\n...\nc: d", "a: b\u2028--- c", "\ufeff--- a\n", "%YAML 1.1\n--- a", "{a: b}{c: d}",
		"|\n---", "\"a\n--- b\"", "# a\n---\n--- b", "a: b\x00\n--- c",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		if evidentlyPlain(document) && errors.Is(checkPlain(document), errNotPlain) {
			// Anything but an object is refused later.
			if encoded, err := yaml.YAMLToJSON(document); err == nil && bytes.HasPrefix(encoded, []byte("{")) {
				t.Errorf("%q counts as evidently plain", document)
			}
		}
	})
}
