// Package shard describes which namespaces an instance works in. Everything that depends on it asks the one Scope: what
// the caches receive, which requests are worked on, how the Lease is called, what metrics say.
package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
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

// MaxNamespaces is how many namespaces a scope may name. The names of excluded ones travel in the address of every list
// and watch; a thousand of the longest are 90 KiB of it, and API servers take a megabyte.
const MaxNamespaces = 1000

// Scope is a set of namespaces: those that are named, or all but those that are excluded. The zero value is all
// namespaces. It is immutable.
type Scope struct {
	// none is no namespace at all; included and excluded are empty then.
	none bool
	// included are sorted; empty stands for all.
	included []string
	// excluded are sorted, and empty if included is not: what is named and excluded is not included.
	excluded []string
}

// New makes a scope of the names of namespaces to work in and of those not to. Neither means all namespaces; a
// namespace in both is excluded (document 000). The error names every name that cannot be a namespace's. Names are
// trimmed, and duplicates folded.
func New(namespaces, excluded []string) (Scope, error) {
	if err := errors.Join(few("namespace", namespaces), few("excluded-namespace", excluded)); err != nil {
		return Scope{}, err
	}
	return parse(namespaces, excluded)
}

// few returns an error for more names than a flag may have.
func few(flag string, names []string) error {
	if len(names) > MaxNamespaces {
		return fmt.Errorf("--%s names %d namespaces, at most %d are possible: divide them by --watch-filter, or by namespaces that share an instance", flag, len(names), MaxNamespaces)
	}
	return nil
}

// parse is New for any number of names: what is left of a scope may be all namespaces but those of many others.
func parse(namespaces, excluded []string) (Scope, error) {
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

// None is the scope of no namespace. No cache can be built for it.
func None() Scope { return Scope{none: true} }

// named is the scope of these namespaces, which are sorted.
func named(names []string) Scope { return Scope{none: len(names) == 0, included: names} }

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
	return slices.Compact(cleaned), nil
}

// Owns reports whether the instance works in the namespace.
func (s Scope) Owns(namespace string) bool {
	if s.listed() {
		return contains(s.included, namespace)
	}
	return !contains(s.excluded, namespace)
}

// listed reports whether the scope is a list of names, perhaps an empty one.
func (s Scope) listed() bool { return s.none || len(s.included) > 0 }

// All reports whether the scope is all namespaces.
func (s Scope) All() bool { return !s.listed() && len(s.excluded) == 0 }

// Empty reports whether the scope is no namespace.
func (s Scope) Empty() bool { return s.none }

// Included returns the namespaces of the scope, nil if it is not a list of names.
func (s Scope) Included() []string { return slices.Clone(s.included) }

// Excluded returns the namespaces that are not in the scope, nil if it is a list of names.
func (s Scope) Excluded() []string { return slices.Clone(s.excluded) }

// Overlaps reports whether there is, or could be, a namespace that both scopes own.
func (s Scope) Overlaps(other Scope) bool { return !s.Within(other).Empty() }

// Within returns what both scopes own.
func (s Scope) Within(other Scope) Scope {
	switch {
	case s.listed():
		return named(slices.DeleteFunc(slices.Clone(s.included), func(name string) bool { return !other.Owns(name) }))
	case other.listed():
		return other.Within(s)
	default:
		return Scope{excluded: union(s.excluded, other.excluded)}
	}
}

// Without returns what this scope owns and the other one does not.
func (s Scope) Without(other Scope) Scope {
	switch {
	case s.listed():
		return named(slices.DeleteFunc(slices.Clone(s.included), other.Owns))
	case other.listed():
		return Scope{excluded: union(s.excluded, other.included)}
	default:
		return named(slices.DeleteFunc(slices.Clone(other.excluded), func(name string) bool { return !s.Owns(name) }))
	}
}

// Equal reports whether both own the same namespaces.
func (s Scope) Equal(other Scope) bool { return s.Encode() == other.Encode() }

// union returns the sorted names of both lists, without duplicates.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// String names the scope for people: "all namespaces", "namespaces a, b", "all namespaces but a, b" or "no namespace".
func (s Scope) String() string {
	switch {
	case s.none:
		return "no namespace"
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

// Encode returns the scope as a short text for an annotation, which Decode reads: "*", "+a,b" or "-a,b"; "+" is no
// namespace.
func (s Scope) Encode() string {
	switch {
	case s.listed():
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
	case text == "+":
		return None(), nil
	case strings.HasPrefix(text, "+"):
		return parse(names, nil)
	case strings.HasPrefix(text, "-"):
		return parse(nil, names)
	default:
		return Scope{}, fmt.Errorf("%q is not a scope", text)
	}
}

// LeaseName returns a name for the Lease of instances with this scope, so that instances with different scopes in one
// namespace do not take turns with each other: the base, and unless the scope is all namespaces a digest of it.
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

// Namespaces limits a cache of namespaced kinds; it is for cache.Options.DefaultNamespaces. The API server sends
// nothing else: named namespaces are watched one by one, exclusion is a field selector under cache.AllNamespaces. As
// cache.Options.DefaultFieldSelector, which document 000 proposes, that selector would be sent for cluster-scoped kinds
// too, and they refuse it. It panics for an empty scope: nil, or an empty map, would be all namespaces.
func (s Scope) Namespaces() map[string]cache.Config {
	if s.none {
		panic("there is no cache of no namespace")
	}
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

// Labelled selects objects, of cluster-scoped kinds, that have the name of a namespace of the scope in a label. With
// excluded namespaces it selects objects without that label too. It panics for an empty scope.
func (s Scope) Labelled(key string) labels.Selector {
	operator, names := selection.In, s.included
	if s.none {
		panic("there is no selector of no namespace: labels.Nothing is sent as an empty one, which selects all")
	}
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
