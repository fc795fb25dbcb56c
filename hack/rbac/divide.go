package main

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// place says where an isolated instance needs a right on a resource.
type place struct {
	// namespaced is in its namespaces.
	namespaced bool
	// clusterWide is everywhere.
	clusterWide bool
	// names limits clusterWide to objects of these names.
	names []string
	// also are verbs that only an isolated instance needs, clusterWide.
	also []string
	// when is what has to be on for the right to be needed; empty is always.
	when condition
	// verbs has what has to be on for single verbs.
	verbs map[string]condition
}

// condition is what the chart grants a right for.
type condition string

const (
	// whenV1 and whenV3 are the strategies of the import. One is on at a time. The records of the other one are cleaned up, so what that
	// needs is granted always.
	whenV1 condition = "v1"
	whenV3 condition = "v3"
	// whenMetrics is that metrics are served, to clients that are asked who they are.
	whenMetrics condition = "metrics"
)

// places has every resource that an instance uses. What is not in it is refused: nobody but a person can say where it belongs, and to grant
// it everywhere would undo the isolation unseen.
func places() map[string]place {
	inNamespaces, clusterWide := place{namespaced: true}, place{clusterWide: true}
	return map[string]place{
		"clusters.cluster.x-k8s.io":        inNamespaces,
		"clusters/status.cluster.x-k8s.io": inNamespaces,
		"clusters.provisioning.cattle.io":  {namespaced: true, verbs: map[string]condition{"create": whenV1}},
		"events.events.k8s.io":             inNamespaces,
		// Kubeconfigs are in the namespaces. Registration tokens are in namespaces whose names Rancher makes up, in Secrets whose names
		// are fixed: that of the token, which an agent is installed with, and that of the one which it gets afterwards. A list or watch
		// is within such names if a field selector limits it to one of them.
		"secrets": {namespaced: true, clusterWide: true, names: []string{"crt-token-default-token", "crt-token-system"}},

		// These have no namespace.
		"clusters.management.cattle.io": {clusterWide: true, verbs: map[string]condition{"create": whenV3}},
		"settings.management.cattle.io": clusterWide,
		// Rancher asks for it when a v3 record names a Fleet workspace. The v3 Cluster behind a v1 record is Rancher's own.
		"fleetworkspaces.management.cattle.io": {clusterWide: true, when: whenV3},
		// It asks whether a namespace is being deleted before it lets its RoleBinding there go.
		"namespaces": {clusterWide: true, also: []string{"get"}},
		"customresourcedefinitions.apiextensions.k8s.io": clusterWide,
		"tokenreviews.authentication.k8s.io":             {clusterWide: true, when: whenMetrics},
		"subjectaccessreviews.authorization.k8s.io":      {clusterWide: true, when: whenMetrics},
		// This is in namespaces whose names Rancher makes up. All of a namespace are listed for a repair, so names cannot limit it.
		"clusterregistrationtokens.management.cattle.io": clusterWide,
		// That of Rancher Turtles, by name, whose namespace an administrator chooses. Those of instances are in the coordination namespace, and so is the
		// Role for them.
		"leases.coordination.k8s.io": clusterWide,
	}
}

// divide returns the rules for the namespaces of an instance and those for the whole cluster.
func divide(rules []rbacv1.PolicyRule) (inNamespaces, clusterWide []rbacv1.PolicyRule, err error) {
	known := places()
	used := map[string]bool{}
	for _, rule := range split(rules) {
		key := keyOf(rule)
		p, ok := known[key]
		switch {
		case !ok:
			return nil, nil, fmt.Errorf("hack/rbac does not know whether %s is for the namespaces of an instance or for the whole cluster: say so in places", key)
		case len(p.names) > 0 && len(rule.ResourceNames) > 0:
			return nil, nil, fmt.Errorf("%s is limited to names by its marker and by hack/rbac: decide for one of them", key)
		}
		used[key] = true
		if p.namespaced {
			inNamespaces = append(inNamespaces, rule)
		}
		if p.clusterWide {
			rule.ResourceNames = slices.Concat(rule.ResourceNames, p.names)
			rule.Verbs = slices.Concat(p.also, rule.Verbs)
			clusterWide = append(clusterWide, rule)
		}
	}
	for key := range known {
		if !used[key] {
			return nil, nil, fmt.Errorf("hack/rbac has a place for %s, which no rule mentions: remove it", key)
		}
	}
	return append(inNamespaces, ownBindings("patch")), append(clusterWide, ownBindings("list", "watch")), nil
}

// ownBindings is what only an isolated instance needs: to see that a RoleBinding is deleted, also in a namespace that it no longer works in, and
// to let it go. What it could hand on by it are the rights that it has in the namespace, and no others: Kubernetes lets nobody grant what they
// do not have.
func ownBindings(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, ResourceNames: []string{"archelon-isolated"}, Verbs: verbs}
}

// keyOf names the resource of a rule that split has made.
func keyOf(rule rbacv1.PolicyRule) string {
	return strings.TrimSuffix(rule.Resources[0]+"."+rule.APIGroups[0], ".")
}

// split makes a rule for each resource. What is no resource is handed on as one, so that nothing gets lost.
func split(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var single []rbacv1.PolicyRule
	for _, rule := range rules {
		if len(rule.NonResourceURLs) > 0 {
			rule.APIGroups, rule.Resources = []string{""}, rule.NonResourceURLs
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				single = append(single, rbacv1.PolicyRule{
					APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: rule.ResourceNames, Verbs: rule.Verbs,
				})
			}
		}
	}
	return single
}
