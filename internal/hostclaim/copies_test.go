package hostclaim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// copying returns a policy for the namespaces that an expression fits.
func copying(namespaces, labels, annotations string) metal3v1.HostDeployPolicy {
	return metal3v1.HostDeployPolicy{Spec: metal3v1.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3v1.HostClaimNamespaces{NameMatches: namespaces},
		MetadataCopy:        &metal3v1.MetadataCopy{LabelsMatch: labels, AnnotationsMatch: annotations},
	}}
}

func copiesOf(labels, annotations map[string]string, policies ...metal3v1.HostDeployPolicy) Copies {
	return CopiesOf(&metav1.ObjectMeta{Labels: labels, Annotations: annotations}, policies, Requester{Name: "team-a"})
}

func TestPoliciesSelectWhatIsCopied(t *testing.T) {
	labels := map[string]string{"infra-kind": "medium", "example.com/rack": "r1", "example.com/rack-2": "r2", "other.example.com/rack": "r3"}
	annotations := map[string]string{"example.com/room": "the blue one", "notes": "x"}
	for name, tc := range map[string]struct {
		policies []metal3v1.HostDeployPolicy
		want     string
	}{
		"no policy":              {nil, `{}`},
		"one without the field":  {[]metal3v1.HostDeployPolicy{{Spec: metal3v1.HostDeployPolicySpec{HostClaimNamespaces: &metal3v1.HostClaimNamespaces{NameMatches: ".*"}}}}, `{}`},
		"one that sets nothing":  {[]metal3v1.HostDeployPolicy{copying(".*", "", "")}, `{}`},
		"whole keys":             {[]metal3v1.HostDeployPolicy{copying(".*", `example\.com/rack`, "")}, `{"labels":{"example.com/rack":"r1"}}`},
		"keys without a domain":  {[]metal3v1.HostDeployPolicy{copying(".*", "infra-.*", "notes")}, `{"labels":{"infra-kind":"medium"},"annotations":{"notes":"x"}}`},
		"another namespace":      {[]metal3v1.HostDeployPolicy{copying("team-b", ".*", ".*")}, `{}`},
		"no namespace":           {[]metal3v1.HostDeployPolicy{copying("", ".*", ".*")}, `{}`},
		"several policies":       {[]metal3v1.HostDeployPolicy{copying(".*", "infra-kind", ""), copying("team-b", ".*", ""), copying("team-a", `example\.com/rack`, "notes")}, `{"labels":{"example.com/rack":"r1","infra-kind":"medium"},"annotations":{"notes":"x"}}`},
		"one cannot be read":     {[]metal3v1.HostDeployPolicy{copying(".*", "(", "notes"), copying(".*", "infra-kind", ".*)|(.*")}, `{"labels":{"infra-kind":"medium"},"annotations":{"notes":"x"}}`},
		"one repeats too much":   {[]metal3v1.HostDeployPolicy{copying(".*", strings.Repeat("(.?){1000}", 3), "")}, `{}`},
		"all labels, in a union": {[]metal3v1.HostDeployPolicy{copying(".*", "[^/]+", ""), copying(".*", ".+/.+", "")}, asJSON(Copies{Labels: labels})},
	} {
		if got := asJSON(copiesOf(labels, annotations, tc.policies...)); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// No policy can copy keys on which other controllers act, or which an API server refuses.
func TestWhatIsNeverCopied(t *testing.T) {
	for _, key := range []string{
		"kubernetes.io/x", "app.kubernetes.io/instance", "kubectl.kubernetes.io/last-applied-configuration", "KubeCtl.Kubernetes.IO/x", "k8s.io/x",
		"x-k8s.io/x", "cluster.x-k8s.io/paused", "Cluster.X-K8s.io/paused", "clusterctl.cluster.x-k8s.io/delete-for-move", "reboot.metal3.io",
		"metal3.io", "metal3.io/BareMetalHost", "hostclaims.metal3.io/copied", "info.hostclaims.metal3.io/x", "archelon.io/allow-deletion", "objectset.rio.cattle.io/id",
		"meta.helm.sh/release-name", "helm.sh/resource-policy", "argocd.argoproj.io/tracking-id", "kustomize.toolkit.fluxcd.io/name",
		"kapp.k14s.io/app", "velero.io/exclude-from-backup", "a b", "", "/x", "x/", "a/b/c", "example.com./x", "kubernetes.io./x", "xn--é.example/x",
		leftOut, strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a/x",
	} {
		all := map[string]string{key: "x"}
		if got := asJSON(copiesOf(all, all, copying(".*", "(?s).*", "(?s).*"))); got != `{}` {
			t.Errorf("%q: got %s", key, got)
		}
		forged := &metal3v1.HostClaim{}
		forged.Annotations = map[string]string{metal3v1.CopiedAnnotation: asJSON(Copies{all, all})}
		if got := asJSON(CopiedTo(forged)); got != `{}` {
			t.Errorf("%q: a forged annotation gets %s", key, got)
		}
	}
	for _, key := range []string{"example.com/x", "mykubernetes.io/x", "kubernetes.io.example.com/x", "metal3", "io", "a_b"} {
		all := map[string]string{key: "x"}
		if got := copiesOf(all, all, copying(".*", ".*", ".*")); len(got.Labels)+len(got.Annotations) != 2 {
			t.Errorf("%q: got %v", key, got)
		}
	}
	bad := map[string]string{"big": strings.Repeat("x", 1025), "no-label": "not a label value!", "empty": ""}
	if got, want := asJSON(copiesOf(bad, bad, copying(".*", ".*", ".*"))), `{"labels":{"empty":""},"annotations":{"empty":"","no-label":"not a label value!"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Hosts may have many labels, and policies may be costly: the same ones are copied each time, and they are few.
func TestCopiesAreBounded(t *testing.T) {
	many := map[string]string{}
	for i := range 10_000 {
		many[fmt.Sprintf("example.com/%05d", i)] = "v"
	}
	// Kept in the order of keys, as long as there is room.
	got := copiesOf(many, many, copying(".*", ".*5", ".*"))
	if want := slices.Sorted(maps.Keys(got.Labels)); len(want) != 32 || want[0] != "example.com/00005" || want[31] != "example.com/00315" {
		t.Errorf("of 10,000 labels there are %v", want)
	}
	if want := slices.Sorted(maps.Keys(got.Annotations)); len(want) != 32 || want[31] != "example.com/00031" {
		t.Errorf("of 10,000 annotations there are %v", want)
	}
	large := map[string]string{}
	for i := range 128 {
		large[fmt.Sprintf("example.com/%03d", i)] = strings.Repeat("\u0001", 1024)
	}
	large["example.com/small"] = "x"
	if got := copiesOf(nil, large, copying(".*", "", ".*")); len(asJSON(got)) > maxCopiedSize+64 || len(got.Annotations) == 0 {
		t.Errorf("large annotations come to %d bytes", len(asJSON(got)))
	}
	// The cost of matching is bounded, however many policies and labels there are. Keys after that are not found.
	costly := []metal3v1.HostDeployPolicy{copying(".*", "example.com/(00000|09999)", "")}
	for i := range 40 {
		costly = append(costly, copying(".*", fmt.Sprintf(`((\pL?){50}){1,%d}-`, i%7+1), ""), copying(".*", fmt.Sprintf("z%d(.?){400}", i), ""))
	}
	first := copiesOf(many, nil, costly...)
	if _, last := first.Labels["example.com/09999"]; last || len(first.Labels) != 1 {
		t.Errorf("got %v, want the label that is looked for first", first.Labels)
	}
	slices.Reverse(costly)
	if diff := cmp.Diff(first, copiesOf(many, nil, costly...)); diff != "" {
		t.Errorf("it depends on the order of policies: %s", diff)
	}
}

// What is copied is found again, so that a settled claim costs no write.
func TestCopiesAreFoundAgain(t *testing.T) {
	texts := rapid.MapOfN(rapid.StringMatching(`([a-z]{1,9}\.example/)?[a-zA-Z0-9]{1,9}`), rapid.String(), 0, 60)
	rapid.Check(t, func(t *rapid.T) {
		copies := copiesOf(texts.Draw(t, "labels"), texts.Draw(t, "annotations"), copying(".*", ".*", ".*"))
		claim := &metal3v1.HostClaim{}
		after := claim.DeepCopy()
		PutCopies(claim, after, copies)
		if diff := cmp.Diff(copies, CopiedTo(after)); diff != "" {
			t.Fatal(diff)
		}
		if again := after.DeepCopy(); PutCopies(after, again, copies) != after {
			t.Fatal("it is written twice")
		}
	})
}

func TestForgedCopies(t *testing.T) {
	for name, said := range map[string]string{
		"no JSON": "{", "another type": `[1]`, "another type inside": `{"labels":{"a":{}}}`, "a number": `{"labels":{"a":1}}`,
		"deep": strings.Repeat("[", 4000), "huge": `{"labels":{` + strings.Repeat(`"a":"x",`, 1<<17) + `"a":"x"}}`, "null": "null",
		"a finalizer": `{"finalizers":["x"],"metadata":{"finalizers":null}}`,
	} {
		claim := &metal3v1.HostClaim{}
		claim.Annotations = map[string]string{metal3v1.CopiedAnnotation: said, "mine": "x"}
		if got := asJSON(CopiedTo(claim)); got != `{}` {
			t.Errorf("%s: got %s", name, got)
		}
		if got, want := patchOf(t, claim, Copies{}), `{"metadata":{"annotations":{"hostclaims.metal3.io/copied":null}}}`; got != want {
			t.Errorf("%s: patched by %s", name, got)
		}
	}
}

// patchOf returns the patch by which a claim, as a cache has it, gets copies.
func patchOf(t *testing.T, stored *metal3v1.HostClaim, copies Copies) string {
	t.Helper()
	claim := kept(t, stored.DeepCopy())
	if !IsKept(claim) {
		claim = stored // Then it is read from the API server.
	}
	after := claim.DeepCopy()
	raw, err := client.MergeFrom(PutCopies(claim, after, copies)).Data(after)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A cache has none of these keys: the patch sets and removes them all the same, and touches nothing else.
func TestCopiesArePatchedInAndOut(t *testing.T) {
	tracked := func(copies Copies, more map[string]string) map[string]string {
		all := map[string]string{metal3v1.CopiedAnnotation: asJSON(copies)}
		maps.Copy(all, more)
		return all
	}
	rack := Copies{Labels: map[string]string{"example.com/rack": "r1"}}
	both := Copies{Labels: map[string]string{"example.com/rack": "r1"}, Annotations: map[string]string{"a": "", "room": "<blue>"}}
	reserved := Copies{
		Labels:      map[string]string{"cluster.x-k8s.io/cluster-name": "k", "example.com/rack": "r1"},
		Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "x", "hostclaims.metal3.io/target": "x"},
	}
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		copies              Copies
		want                string
	}{
		"nothing":       {nil, nil, Copies{}, `{}`},
		"to none":       {nil, nil, both, `{"metadata":{"annotations":{"a":"","hostclaims.metal3.io/copied":"COPIED","room":"\u003cblue\u003e"},"labels":{"example.com/rack":"r1"}}}`},
		"beside others": {map[string]string{"a": "1", "z": "2"}, map[string]string{"a": "mine", "b": "mine"}, both, `{"metadata":{"annotations":{"a":"","hostclaims.metal3.io/copied":"COPIED","room":"\u003cblue\u003e"},"labels":{"example.com/rack":"r1"}}}`},
		"as they are":   {map[string]string{"example.com/rack": "r1"}, tracked(rack, nil), rack, `{}`},
		"as they are, and somebody else has changed them": {map[string]string{"example.com/rack": "mine"}, tracked(rack, nil), rack, `{}`},
		"another value":                                    {map[string]string{"example.com/rack": "r0"}, tracked(Copies{Labels: map[string]string{"example.com/rack": "r0"}}, nil), rack, `{"metadata":{"annotations":{"hostclaims.metal3.io/copied":"COPIED"},"labels":{"example.com/rack":"r1"}}}`},
		"gone, and others stay":                            {map[string]string{"example.com/rack": "r1", "x": "mine", "z": "mine"}, tracked(rack, map[string]string{"b": "mine"}), Copies{}, `{"metadata":{"annotations":{"hostclaims.metal3.io/copied":null},"labels":{"example.com/rack":null}}}`},
		"gone, and it is what stands for others":           {map[string]string{"example.com/rack": "r1", "z": "mine"}, tracked(rack, nil), Copies{}, `{"metadata":{"annotations":{"hostclaims.metal3.io/copied":null},"labels":{"example.com/rack":null}}}`},
		"a forged annotation has nothing of others' taken": {map[string]string{"cluster.x-k8s.io/cluster-name": "k"}, tracked(reserved, map[string]string{"argocd.argoproj.io/tracking-id": "x"}), Copies{}, `{"metadata":{"annotations":{"hostclaims.metal3.io/copied":null},"labels":{"example.com/rack":null}}}`},
	} {
		stored := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{
			Labels: tc.labels, Annotations: tc.annotations, Finalizers: []string{metal3v1.BareMetalFinalizer},
		}}
		quoted, err := json.Marshal(asJSON(tc.copies))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := patchOf(t, stored, tc.copies), strings.ReplaceAll(tc.want, `"COPIED"`, string(quoted)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

// A cache of hosts has all that can be copied, and little of what cannot.
func TestWhatIsKeptOfTheAnnotationsOfAHost(t *testing.T) {
	all := map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": "{}", "hostclaims.metal3.io/saved": "{}", "example.com/room": "x",
		"example.com/big": strings.Repeat("x", 5000), "inspect.metal3.io": "",
	}
	want := map[string]string{"hostclaims.metal3.io/saved": "{}", "example.com/room": "x", "inspect.metal3.io": "", leftOut: ""}
	if diff := cmp.Diff(want, KeepHostAnnotations(all)); diff != "" {
		t.Error(diff)
	}
	many := map[string]string{}
	for i := range 10_000 {
		many[fmt.Sprintf("example.com/%05d", i)] = strings.Repeat("x", 1024)
	}
	if got := len(KeepHostAnnotations(many)); got != maxLooked+1 {
		t.Errorf("of 10,000 there are %d", got)
	}
	policy := copying(".*", "", ".*(5|big)")
	for _, of := range []map[string]string{all, many, nil} {
		if diff := cmp.Diff(copiesOf(nil, of, policy), copiesOf(nil, KeepHostAnnotations(of), policy)); diff != "" {
			t.Errorf("a host from a cache has others copied than the one of the API server: %s", diff)
		}
	}
}

func TestCopyProblem(t *testing.T) {
	for want, policy := range map[string]metal3v1.HostDeployPolicy{
		"":                                      copying(".*", "a", ""),
		"spec.metadataCopy is empty":            copying(".*", "", ""),
		"spec.metadataCopy.labelsMatch cannot":  copying(".*", "(", "a"),
		"spec.metadataCopy.annotationsMatch ca": copying(".*", "a", "a)|(b"),
		"annotationsMatch cannot be read: it repeats too much": copying(".*", "a", strings.Repeat("(.?){1000}", 3)),
	} {
		if got := CopyProblem(&policy); got == "" != (want == "") || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := CopyProblem(&metal3v1.HostDeployPolicy{}); got != "" {
		t.Errorf("got %q of a policy without the field", got)
	}
}
