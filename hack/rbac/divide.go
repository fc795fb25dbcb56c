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
}

// places has every resource that an instance uses. What is not in it is refused: nobody but a person can say where it belongs, and to grant
// it everywhere would undo the isolation unseen.
func places() map[string]place {
	inNamespaces, clusterWide := place{namespaced: true}, place{clusterWide: true}
	return map[string]place{
		"clusters.cluster.x-k8s.io":        inNamespaces,
		"clusters/status.cluster.x-k8s.io": inNamespaces,
		"clusters.provisioning.cattle.io":  inNamespaces,
		"events.events.k8s.io":             inNamespaces,
		// Kubeconfigs are in the namespaces. Registration tokens are in namespaces whose names Rancher makes up, in Secrets whose names
		// are fixed: that of the token, which an agent is installed with, and that of the one which it gets afterwards. A list or watch
		// is within such names if a field selector limits it to one of them.
		"secrets": {namespaced: true, clusterWide: true, names: []string{"crt-token-default-token", "crt-token-system"}},

		// These have no namespace.
		"clusters.management.cattle.io":                  clusterWide,
		"settings.management.cattle.io":                  clusterWide,
		"fleetworkspaces.management.cattle.io":           clusterWide,
		"namespaces":                                     clusterWide,
		"customresourcedefinitions.apiextensions.k8s.io": clusterWide,
		"tokenreviews.authentication.k8s.io":             clusterWide,
		"subjectaccessreviews.authorization.k8s.io":      clusterWide,
		// This is in namespaces whose names Rancher makes up. All of a namespace are listed for a repair, so names cannot limit it.
		"clusterregistrationtokens.management.cattle.io": clusterWide,
		// Those of Rancher Turtles and of other instances, whose namespaces an administrator chooses.
		"leases.coordination.k8s.io": clusterWide,
	}
}

// divide returns the rules for the namespaces of an instance and those for the whole cluster.
func divide(rules []rbacv1.PolicyRule) (inNamespaces, clusterWide []rbacv1.PolicyRule, err error) {
	known := places()
	used := map[string]bool{}
	for _, rule := range split(rules) {
		key := strings.TrimSuffix(rule.Resources[0]+"."+rule.APIGroups[0], ".")
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
			clusterWide = append(clusterWide, rule)
		}
	}
	for key := range known {
		if !used[key] {
			return nil, nil, fmt.Errorf("hack/rbac has a place for %s, which no rule mentions: remove it", key)
		}
	}
	return append(inNamespaces, ownBinding()), clusterWide, nil
}

// ownBinding is the one right that only an isolated instance needs: to let its RoleBinding go when the namespace is deleted. What it could
// hand on by it are the rights that it has in the namespace, and no others: Kubernetes lets nobody grant what they do not have.
func ownBinding() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, ResourceNames: []string{"archelon-isolated"}, Verbs: []string{"get", "patch"},
	}
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
