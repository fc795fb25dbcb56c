package workload

import (
	"bytes"
	"errors"
	"io"

	yamlv3 "go.yaml.in/yaml/v3"
)

// ErrAnchors is what CheckPlain returns for YAML with anchors.
var ErrAnchors = errors.New("uses YAML anchors, which are not supported")

// CheckPlain returns an error when what a tenant wrote is not one YAML document, or uses anchors: a few bytes
// of them expand to gigabytes, and nothing that tenants write needs them. The limits that YAML parsers have
// for this count nodes and not bytes. The errors quote nothing.
func CheckPlain(text []byte) error {
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	var root, more yamlv3.Node
	if err := decoder.Decode(&root); err != nil {
		return errors.New("is not YAML")
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("is more than one YAML document")
	}
	for nodes := []*yamlv3.Node{&root}; len(nodes) > 0; {
		node := nodes[len(nodes)-1]
		nodes = append(nodes[:len(nodes)-1], node.Content...)
		if node.Kind == yamlv3.AliasNode || node.Anchor != "" {
			return ErrAnchors
		}
	}
	return nil
}
