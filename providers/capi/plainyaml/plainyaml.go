// Package plainyaml refuses YAML that takes far more memory than it has bytes: what strangers write is checked before
// it is parsed.
package plainyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	yamlv3 "go.yaml.in/yaml/v3"
)

// maxDepth is how deeply what tenants write may be nested. A kubeconfig has seven levels. What follows the check
// recurses once for each level.
const maxDepth = 32

// Errors of Check.
var (
	// ErrAnchors is that of YAML with anchors.
	ErrAnchors = errors.New("uses YAML anchors, which are not supported")
	// ErrDepth is that of lists and maps in each other.
	ErrDepth = fmt.Errorf("is nested in more than %d levels", maxDepth)
)

// Check returns an error when what a tenant wrote is not one YAML document, is nested deeply, or uses anchors: a
// few bytes of them expand to gigabytes, and nothing that tenants write needs them. The limits that YAML parsers have
// for this count nodes and not bytes. The errors quote nothing.
//
// It takes up to 250 bytes of memory for each byte of the text. So its callers limit the text before, and how many
// are checked at the same time.
func Check(text []byte) error {
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	var root, more yamlv3.Node
	if err := decoder.Decode(&root); err != nil {
		return errors.New("is not YAML")
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("is more than one YAML document")
	}
	level := []*yamlv3.Node{&root}
	for depth := 0; len(level) > 0; depth++ {
		if depth > maxDepth {
			return ErrDepth
		}
		var next []*yamlv3.Node
		for _, node := range level {
			if node.Kind == yamlv3.AliasNode || node.Anchor != "" {
				return ErrAnchors
			}
			next = append(next, node.Content...)
		}
		level = next
	}
	return nil
}
