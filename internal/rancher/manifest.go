package rancher

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

const (
	// maxObjects is far above the dozen objects of a manifest; only pull secrets vary in number.
	maxObjects = 200
	// maxObjectBytes is what etcd stores of one object by default. It bounds what the parser allocates.
	maxObjectBytes = 3 << 19
)

// Manifest is the manifest of Rancher's agent: the objects by which a workload cluster is registered.
// It holds a token in its credentials Secret.
type Manifest struct {
	objects           []*unstructured.Unstructured
	credentialsSecret string
	// unknown are kinds that Rancher's template did not have so far.
	unknown []schema.GroupVersionKind
}

// ParseManifest reads a manifest and refuses, with a Problem, anything that cannot be the set of objects
// that Rancher makes: other namespaces, kinds that reach further than the agent, a missing agent Deployment, or one
// whose credentials Secret is missing. No message quotes the data.
func ParseManifest(data []byte) (*Manifest, error) {
	if looksLikeHTML(data) {
		return nil, htmlProblem(len(data))
	}
	m := &Manifest{}
	seen := map[string]bool{}
	// The reader loses a long last line that does not end.
	reader := utilyaml.NewYAMLReader(bufio.NewReader(io.MultiReader(bytes.NewReader(data), strings.NewReader("\n"))))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, notYAML(number, len(data))
		}
		object, problem := parseDocument(document, number, len(data))
		if problem != nil {
			return nil, problem
		}
		if object == nil {
			continue
		}
		known, problem := admit(object, number)
		if problem != nil {
			return nil, problem
		}
		if !known {
			m.unknown = append(m.unknown, object.GroupVersionKind())
		}
		if problem := m.add(object, seen); problem != nil {
			return nil, problem
		}
	}
	if len(m.objects) == 0 {
		return nil, fail(archelonv1.ManifestEmptyReason,
			"The manifest of Rancher's agent (%d bytes) has no object. %s", len(data), remedy)
	}
	if problem := m.complete(); problem != nil {
		return nil, problem
	}
	return m, nil
}

// Objects returns copies of the objects, in Rancher's order.
func (m *Manifest) Objects() []*unstructured.Unstructured {
	objects := make([]*unstructured.Unstructured, 0, len(m.objects))
	for _, object := range m.objects {
		objects = append(objects, object.DeepCopy())
	}
	return objects
}

// CredentialsSecret returns the name of the Secret in namespace cattle-system with which the agent
// connects.
func (m *Manifest) CredentialsSecret() string { return m.credentialsSecret }

// add appends an object that is not in the manifest yet.
func (m *Manifest) add(object *unstructured.Unstructured, seen map[string]bool) *outcome.Problem {
	key := strings.Join([]string{object.GroupVersionKind().GroupKind().String(), object.GetNamespace(), object.GetName()}, "/")
	if seen[key] {
		return fail(archelonv1.ManifestForeignObjectReason, "The manifest of Rancher's agent has %s twice. %s", describe(object), remedy)
	}
	seen[key] = true
	if len(m.objects) == maxObjects {
		return fail(archelonv1.ManifestTooLargeReason, "The manifest of Rancher's agent has more than %d objects. %s", maxObjects, remedy)
	}
	m.objects = append(m.objects, object)
	return nil
}

// parseDocument returns the object in a YAML document, nil when the document is blank.
func parseDocument(document []byte, number, size int) (*unstructured.Unstructured, *outcome.Problem) {
	if len(document) > maxObjectBytes {
		return nil, fail(archelonv1.ManifestTooLargeReason,
			"Document %d of the manifest of Rancher's agent has more than %d bytes. %s", number, maxObjectBytes, remedy)
	}
	if !evidentlyPlain(document) {
		if err := checkPlain(document); err != nil {
			return nil, notYAML(number, size)
		}
	}
	encoded, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, notYAML(number, size)
	}
	if string(encoded) == "null" {
		return nil, nil
	}
	var content map[string]any
	if err := utiljson.Unmarshal(encoded, &content); err != nil || content == nil {
		return nil, notYAML(number, size)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

var errNotPlain = errors.New("more than one document, or anchors")

// evidentlyPlain reports whether a document cannot be what checkPlain refuses: there is no anchor without an
// ampersand, and after a block no second document without a mark at the beginning of a line. It spares a second
// parse of what Rancher sends.
func evidentlyPlain(document []byte) bool {
	// YAML breaks lines at some characters beyond ASCII as well.
	if bytes.IndexFunc(document, func(r rune) bool { return r == '&' || r >= utf8.RuneSelf }) >= 0 {
		return false
	}
	// What begins with a bracket or a quote ends with its counterpart, and another document may follow.
	if first := bytes.TrimLeft(document, "\n"); len(first) > 0 && (first[0] < 'a' || first[0] > 'z') {
		return false
	}
	for _, mark := range []string{"---", "..."} {
		if bytes.Contains(document, []byte("\n"+mark)) || bytes.Contains(document, []byte("\r"+mark)) {
			return false
		}
	}
	return true
}

// checkPlain returns an error when a document is not exactly one document, or uses anchors: these need not be
// supported, and a few bytes of them expand to gigabytes.
func checkPlain(document []byte) error {
	decoder := yamlv3.NewDecoder(bytes.NewReader(document))
	var root, rest yamlv3.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	if err := decoder.Decode(&rest); !errors.Is(err, io.EOF) {
		return errNotPlain
	}
	for nodes := []*yamlv3.Node{&root}; len(nodes) > 0; {
		node := nodes[len(nodes)-1]
		nodes = append(nodes[:len(nodes)-1], node.Content...)
		if node.Kind == yamlv3.AliasNode || node.Anchor != "" {
			return errNotPlain
		}
	}
	return nil
}

// looksLikeHTML reports whether data begins like a web page; no YAML begins so.
func looksLikeHTML(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))), []byte("<"))
}

func notYAML(number, size int) *outcome.Problem {
	return fail(archelonv1.ManifestNotYAMLReason,
		"Received %d bytes instead of the manifest of Rancher's agent. Document %d is no Kubernetes object in YAML. %s", size, number, remedy)
}

const remedy = "Check that Rancher's setting server-url leads to Rancher, and check the log of Rancher"

// describe names an object whose names have been checked.
func describe(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return fmt.Sprintf("%s %s", object.GetKind(), object.GetName())
	}
	return fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
}
