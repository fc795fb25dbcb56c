package hostclaim

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// What a node is told is what the baremetal-operator would tell of the stand-in, and what the Secret says wins. Numbers
// and names stay what they are.
func TestMetaDataTellsOfTheStandIn(t *testing.T) {
	standIn := StandIn{types.NamespacedName{Namespace: "tenant", Name: "123"}, "1e10"}
	told := func(with map[string]any) map[string]any {
		all := map[string]any{
			"uuid": "1e10", "metal3-namespace": "tenant", "metal3-name": "123", "name": "123", "local-hostname": "123", "local_hostname": "123",
		}
		maps.Copy(all, with)
		return all
	}
	for name, tc := range map[string]struct {
		data map[string][]byte
		want map[string]any
	}{
		"NoSecret":     {nil, told(nil)},
		"Empty":        {map[string][]byte{"metaData": {}}, told(nil)},
		"Null":         {map[string][]byte{"metaData": []byte("null")}, told(nil)},
		"Comment":      {map[string][]byte{"metaData": []byte("# nothing\n")}, told(nil)},
		"Provider":     {map[string][]byte{"metaData": []byte("name: node-0\nproviderid: a/b\n")}, told(map[string]any{"name": "node-0", "providerid": "a/b"})},
		"OtherKey":     {map[string][]byte{"value": []byte("index: 7")}, told(map[string]any{"index": 7.})},
		"OfItsOwn":     {map[string][]byte{"metaData": []byte("uuid: mine")}, told(map[string]any{"uuid": "mine"})},
		"JSON":         {map[string][]byte{"metaData": []byte(`{"local-hostname": "x", "list": [1]}`)}, told(map[string]any{"local-hostname": "x", "list": []any{1.}})},
		"WithDocument": {map[string][]byte{"metaData": []byte("---\na: \"01\"\n")}, told(map[string]any{"a": "01"})},
	} {
		t.Run(name, func(t *testing.T) {
			var got map[string]any
			if err := yaml.Unmarshal(standIn.Describe(tc.data)["metaData"], &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What cannot be read is left to the baremetal-operator, which says so. Aliases that stand for gigabytes are not
// followed.
func TestHostileMetaDataStaysWhatItIs(t *testing.T) {
	standIn := StandIn{types.NamespacedName{Namespace: "tenant", Name: "m"}, "u"}
	for name, raw := range map[string]string{"List": "- a\n", "Text": "just text", "Broken": "a: [", "Binary": "\x00\xff"} {
		data := map[string][]byte{"metaData": []byte(raw), "other": []byte("kept")}
		got := standIn.Describe(data)
		if string(got["metaData"]) != raw || string(got["other"]) != "kept" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	bomb := "a0: &a0 " + strings.Repeat("x", 1000) + "\n"
	for i := 1; i < 30; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	if got := standIn.Describe(map[string][]byte{"metaData": []byte(bomb)})["metaData"]; len(got) > 2*len(bomb) {
		t.Errorf("%d bytes became %d", len(bomb), len(got))
	}
}

// A copy is replaced when the Secret or the stand-in is another one. A claim without a Machine has Secrets copied as
// they are.
func TestCopyVersion(t *testing.T) {
	secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "s", ResourceVersion: "1"}}
	newer := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "s", ResourceVersion: "2"}}
	claim := func(uid string, image *metal3v1.Image) *metal3v1.HostClaim {
		c := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "m"}}
		c.Annotations = Set(nil, "hostclaims.metal3.io/stand-in", uid)
		c.Spec.Image = image
		return c
	}
	image := &metal3v1.Image{URL: "http://image"}
	one, other := Described(claim("one", image), MetaData), Described(claim("other", image), MetaData)
	versions := map[string]bool{}
	for _, version := range []string{
		CopyVersion(secret, nil), CopyVersion(secret, one), CopyVersion(secret, other), CopyVersion(newer, one), CopyVersion(nil, one), CopyVersion(nil, other),
	} {
		versions[version] = true
		if len(version) > 63 {
			t.Errorf("%s is no value of a label", version)
		}
	}
	if len(versions) != 6 || CopyVersion(secret, one) != CopyVersion(secret, Described(claim("one", image), MetaData)) {
		t.Errorf("got %d versions, want each to have its own: %v", len(versions), versions)
	}
	for name, of := range map[string]*StandIn{
		"NoMachine": Described(claim("", image), MetaData), "NoImage": Described(claim("one", nil), MetaData),
		"UserData": Described(claim("one", image), UserData), "NoLabel": Described(claim("no label of a node", image), MetaData),
	} {
		if of != nil {
			t.Errorf("%s: a stand-in is described", name)
		}
	}
}
