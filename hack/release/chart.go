package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// release is what a chart is told of the release that it is of.
type release struct {
	version string // the tag
	image   string // with its registry
	digest  string
	changes []change
}

// stage writes a copy of a chart for the release. What is not changed stays as it is, with its comments.
func (r release) stage(from, to string) error {
	registry, repository, found := strings.Cut(r.image, "/")
	if !found || !regexp.MustCompile(`^sha256:[a-f0-9]{64}$`).MatchString(r.digest) {
		return fmt.Errorf("%q and %q are no image and its digest", r.image, r.digest)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	if err := edit(filepath.Join(to, "Chart.yaml"), r.describe); err != nil {
		return err
	}
	return edit(filepath.Join(to, "values.yaml"), func(values *yaml.Node) (bool, error) {
		image := at(values, "image")
		if image == nil {
			return false, errors.New("there is no image")
		}
		first, second := set(image, "registry", text(registry)), set(image, "repository", text(repository))
		return first || second, nil
	})
}

// describe fills in Chart.yaml.
func (r release) describe(chart *yaml.Node) (bool, error) {
	annotations := at(chart, "annotations")
	if annotations == nil {
		return false, errors.New("there are no annotations")
	}
	version := strings.TrimPrefix(r.version, "v")
	set(chart, "version", text(version))
	set(chart, "appVersion", text(version))
	// By it the notes of the chart know that the image was published.
	set(annotations, "archelon.io/image", text(r.image+"@"+r.digest))
	set(annotations, "artifacthub.io/prerelease", text(strconv.FormatBool(strings.Contains(version, "-"))))
	for name, value := range map[string]any{
		"artifacthub.io/changes": r.changes,
		"artifacthub.io/images":  []map[string]string{{"name": "archelon", "image": r.image + ":" + r.version + "@" + r.digest}},
	} {
		raw, err := yaml.Marshal(value)
		if err != nil {
			return false, err
		}
		set(annotations, name, text(string(raw)))
	}
	return true, nil
}

// edit changes the map that a file has. A file that is not changed keeps its form.
func edit(file string, change func(*yaml.Node) (bool, error)) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	document := &yaml.Node{}
	if err := yaml.Unmarshal(raw, document); err != nil {
		return err
	}
	switch changed, err := change(document.Content[0]); {
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	case !changed:
		return nil
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(document); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// at returns what a map has below a key.
func at(node *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// set gives a key of a map a value, and reports whether it had another one.
func set(node *yaml.Node, key string, value *yaml.Node) bool {
	found := at(node, key)
	if found == nil {
		node.Content = append(node.Content, text(key), value)
		return true
	}
	changed := found.Value != value.Value
	*found = *value
	return changed
}

// text is a scalar that is read as a text, whatever is in it.
func text(value string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(value)
	return node
}
