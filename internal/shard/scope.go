// Package shard describes which namespaces an instance works in. Everything that depends on it asks the one Scope: what the caches
// receive, which requests are worked on, how the Lease is called, what metrics say.
package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// MaxNamespaces is how many namespaces a scope may name. The names of excluded ones travel in the address of every list and watch;
// a thousand of the longest are 90 KiB of it, and API servers take a megabyte.
const MaxNamespaces = 1000

// Scope is the set of namespaces that an instance works in: those that are named, or all but those that are excluded. The zero
// value is all namespaces. It is immutable.
type Scope struct {
	// included are sorted; empty stands for all.
	included []string
	// excluded are sorted, and empty if included is not: what is named and excluded is not included.
	excluded []string
}

// New makes a scope of the names of namespaces to work in and of those not to. Neither means all namespaces; a namespace in both is
// excluded (document 000). The error names every name that cannot be a namespace's. Names are trimmed, and duplicates folded.
func New(namespaces, excluded []string) (Scope, error) {
	named, err := clean("namespace", namespaces)
	if err != nil {
		return Scope{}, err
	}
	left, err := clean("excluded-namespace", excluded)
	if err != nil {
		return Scope{}, err
	}
	if len(named) == 0 {
		return Scope{excluded: left}, nil
	}
	included := slices.DeleteFunc(slices.Clone(named), func(name string) bool { return contains(left, name) })
	if len(included) == 0 {
		return Scope{}, fmt.Errorf("--excluded-namespace excludes every namespace that --namespace names (%s): nothing is left to work in", strings.Join(named, ", "))
	}
	return Scope{included: included}, nil
}

// clean returns sorted names without duplicates.
func clean(flag string, names []string) ([]string, error) {
	var cleaned []string
	for _, name := range names {
		name = strings.TrimSpace(name)
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return nil, fmt.Errorf("--%s: %q cannot be the name of a namespace: %s", flag, name, strings.Join(problems, "; "))
		}
		cleaned = append(cleaned, name)
	}
	slices.Sort(cleaned)
	cleaned = slices.Compact(cleaned)
	if len(cleaned) > MaxNamespaces {
		return nil, fmt.Errorf("--%s names %d namespaces, at most %d are possible: divide them by --watch-filter, or by namespaces that share an instance", flag, len(cleaned), MaxNamespaces)
	}
	return cleaned, nil
}

// Owns reports whether the instance works in the namespace.
func (s Scope) Owns(namespace string) bool {
	if len(s.included) > 0 {
		return contains(s.included, namespace)
	}
	return !contains(s.excluded, namespace)
}

// All reports whether the scope is all namespaces.
func (s Scope) All() bool { return len(s.included)+len(s.excluded) == 0 }

// Included returns the namespaces of the scope, nil if it is not a list of names.
func (s Scope) Included() []string { return slices.Clone(s.included) }

// Excluded returns the namespaces that are not in the scope, nil if it is a list of names.
func (s Scope) Excluded() []string { return slices.Clone(s.excluded) }

// Overlaps reports whether there is, or could be, a namespace that both scopes own.
func (s Scope) Overlaps(other Scope) bool {
	switch {
	case len(s.included) > 0:
		return slices.ContainsFunc(s.included, other.Owns)
	case len(other.included) > 0:
		return slices.ContainsFunc(other.included, s.Owns)
	default:
		return true // Both own almost everything.
	}
}

// String names the scope for people: "all namespaces", "namespaces a, b" or "all namespaces but a, b".
func (s Scope) String() string {
	switch {
	case len(s.included) > 0:
		return "namespaces " + strings.Join(s.included, ", ")
	case len(s.excluded) > 0:
		return "all namespaces but " + strings.Join(s.excluded, ", ")
	default:
		return "all namespaces"
	}
}

// maxLabel is how long the value of a metrics label may be.
const maxLabel = 128

// MetricsLabel is String, or a shorter text for a scope of many names.
func (s Scope) MetricsLabel() string {
	switch text := s.String(); {
	case len(text) <= maxLabel:
		return text
	case len(s.included) > 0:
		return fmt.Sprintf("%d namespaces (%s)", len(s.included), s.digest())
	default:
		return fmt.Sprintf("all namespaces but %d (%s)", len(s.excluded), s.digest())
	}
}

// Encode returns the scope as a short text for an annotation, which Decode reads: "*", "+a,b" or "-a,b".
func (s Scope) Encode() string {
	switch {
	case len(s.included) > 0:
		return "+" + strings.Join(s.included, ",")
	case len(s.excluded) > 0:
		return "-" + strings.Join(s.excluded, ",")
	default:
		return "*"
	}
}

// Decode reads what Encode has written.
func Decode(text string) (Scope, error) {
	names := strings.Split(strings.TrimLeft(text, "+-"), ",")
	switch {
	case text == "*":
		return Scope{}, nil
	case strings.HasPrefix(text, "+"):
		return New(names, nil)
	case strings.HasPrefix(text, "-"):
		return New(nil, names)
	default:
		return Scope{}, fmt.Errorf("%q is not a scope", text)
	}
}

// LeaseName returns a name for the Lease of instances with this scope, so that instances with different scopes in one namespace do
// not take turns with each other: the base, and unless the scope is all namespaces a digest of it.
func (s Scope) LeaseName(base string) string {
	if s.All() {
		return base
	}
	return base + "-" + s.digest()
}

func (s Scope) digest() string {
	sum := sha256.Sum256([]byte(s.Encode()))
	return hex.EncodeToString(sum[:4])
}

// Namespaces limits a cache of namespaced kinds; it is for cache.Options.DefaultNamespaces. The API server sends nothing else: named
// namespaces are watched one by one, exclusion is a field selector under cache.AllNamespaces. As cache.Options.DefaultFieldSelector, which
// document 000 proposes, that selector would be sent for cluster-scoped kinds too, and they refuse it.
func (s Scope) Namespaces() map[string]cache.Config {
	if len(s.included) > 0 {
		namespaces := make(map[string]cache.Config, len(s.included))
		for _, name := range s.included {
			namespaces[name] = cache.Config{}
		}
		return namespaces
	}
	if len(s.excluded) == 0 {
		return nil
	}
	terms := make([]fields.Selector, 0, len(s.excluded))
	for _, name := range s.excluded {
		terms = append(terms, fields.OneTermNotEqualSelector("metadata.namespace", name))
	}
	return map[string]cache.Config{cache.AllNamespaces: {FieldSelector: fields.AndSelectors(terms...)}}
}

// NamespaceObjects selects the Namespaces of the scope by the label with their name, which every API server sets.
func (s Scope) NamespaceObjects() labels.Selector { return s.Labelled(corev1.LabelMetadataName) }

// Labelled selects objects, of cluster-scoped kinds, that have the name of a namespace of the scope in a label. With excluded
// namespaces it selects objects without that label too.
func (s Scope) Labelled(key string) labels.Selector {
	operator, names := selection.In, s.included
	if len(names) == 0 {
		operator, names = selection.NotIn, s.excluded
	}
	if len(names) == 0 {
		return labels.Everything()
	}
	// Names of namespaces are valid values, and the key is a constant.
	requirement, err := labels.NewRequirement(key, operator, names)
	if err != nil {
		panic(err)
	}
	return labels.NewSelector().Add(*requirement)
}

func contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}
