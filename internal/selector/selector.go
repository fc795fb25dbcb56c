// Package selector reads label selectors that administrators write.
package selector

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// ErrEverything is that a selector selects all objects, as an empty one does.
var ErrEverything = errors.New("it selects everything")

// Parse reads a selector as kubectl does, such as "team=blue,!old". It refuses a selector that selects everything, and
// sets without a value: "team notin ()" is valid for Kubernetes and selects all objects, also those without the label.
func Parse(text string) (labels.Selector, error) {
	parsed, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	requirements, _ := parsed.Requirements()
	if len(requirements) == 0 {
		return nil, ErrEverything
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.NotIn, selection.NotEquals:
			if r.Values().Has("") {
				return nil, fmt.Errorf("%q has no value: add one, or use %s or !%[2]s, which ask whether there is such a label", r.String(), r.Key())
			}
		}
	}
	return parsed, nil
}
