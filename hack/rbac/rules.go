package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// merge returns rules with one for each resource and names that it is limited to, in an order that stays. A rule that
// is within another one is left out.
func merge(rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	verbs, err := collect(rules)
	if err != nil {
		return nil, err
	}
	var merged []rbacv1.PolicyRule
	for k, granted := range verbs {
		if slices.ContainsFunc(slices.Collect(maps.Keys(verbs)), func(other key) bool { return k.within(other) && verbs[other].IsSuperset(granted) }) {
			continue
		}
		merged = append(merged, rbacv1.PolicyRule{
			APIGroups: []string{k.group}, Resources: []string{k.resource}, ResourceNames: strings.Fields(k.names), Verbs: sets.List(granted),
		})
	}
	slices.SortFunc(merged, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(cmp.Compare(a.APIGroups[0], b.APIGroups[0]), cmp.Compare(a.Resources[0], b.Resources[0]), slices.Compare(a.ResourceNames, b.ResourceNames))
	})
	return merged, nil
}

// key is what verbs are granted for. Names are separated by spaces; none are all.
type key struct{ group, resource, names string }

// within reports whether what a key stands for is part of what another one stands for.
func (k key) within(other key) bool {
	wider := other.names == "" || k.names != "" && sets.New(strings.Fields(other.names)...).HasAll(strings.Fields(k.names)...)
	return k != other && k.group == other.group && k.resource == other.resource && wider
}

// collect returns the verbs that rules grant.
func collect(rules []rbacv1.PolicyRule) (map[key]sets.Set[string], error) {
	verbs := map[key]sets.Set[string]{}
	for _, rule := range rules {
		if len(rule.NonResourceURLs) > 0 {
			return nil, fmt.Errorf("a marker has the URLs %s: say in hack/rbac what becomes of them", strings.Join(rule.NonResourceURLs, ", "))
		}
		names := strings.Join(slices.Sorted(slices.Values(rule.ResourceNames)), " ")
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if strings.Contains(group+resource+names+strings.Join(rule.Verbs, ""), "*") {
					return nil, fmt.Errorf("a marker for %s.%s has a wildcard", resource, group)
				}
				k := key{group, resource, names}
				if verbs[k] == nil {
					verbs[k] = sets.Set[string]{}
				}
				verbs[k].Insert(rule.Verbs...)
			}
		}
	}
	return verbs, nil
}
