package rancher

import (
	"context"
	"fmt"
	"net/http"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kinds of Rancher's that say who has which role in a cluster.
var (
	bindingGVK      = schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "ClusterRoleTemplateBinding"}
	roleTemplateGVK = schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "RoleTemplate"}
	clusterRoleGVK  = rbacv1.SchemeGroupVersion.WithKind("ClusterRole")
)

// reviewBinding holds what rancher-webhook v0.10 and v0.11 want of a new ClusterRoleTemplateBinding
// (pkg/resources/management.cattle.io/v3/clusterroletemplatebinding/validator.go): a subject, a cluster, a role
// template that is for clusters, no second one of the same, and that the caller has all rules of the role template in
// the namespace of the cluster. There is no verb, such as bind, that stands for having them. What a caller has by
// bindings of his own is left out.
func (w *webhook) reviewBinding(ctx context.Context, in *admissionv1.AdmissionRequest) ([]byte, *denial, error) {
	raw, err := decode(in.Object.Raw)
	if err != nil {
		return nil, nil, err
	}
	binding := &managementv3.ClusterRoleTemplateBinding{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, binding); err != nil {
		return nil, nil, fmt.Errorf("reading a binding under review: %w", err)
	}
	user := binding.UserName != "" || binding.UserPrincipalName != ""
	group := binding.GroupName != "" || binding.GroupPrincipalName != ""
	switch {
	case user == group:
		return nil, &denial{http.StatusBadRequest, "binding must target either a user or a group"}, nil
	case binding.ClusterName == "" || binding.ClusterName != binding.Namespace:
		return nil, &denial{http.StatusBadRequest, "clusterName and namespace must be the same value"}, nil
	}
	if no, err := w.exists(ctx, clusterGVK, binding.ClusterName, &unstructured.Unstructured{}); no != nil || err != nil {
		return nil, no, err
	}
	template := &unstructured.Unstructured{}
	if no, err := w.exists(ctx, roleTemplateGVK, binding.RoleTemplateName, template); no != nil || err != nil {
		return nil, no, err
	}
	locked, _, _ := unstructured.NestedBool(template.Object, "locked")
	switch {
	case locked:
		return nil, &denial{http.StatusBadRequest, "referenced role is locked and cannot be assigned"}, nil
	case text(template, "context") != "cluster":
		return nil, &denial{http.StatusBadRequest, "the context of the role template must be cluster"}, nil
	}
	if no, err := w.checkDuplicate(ctx, binding); no != nil || err != nil {
		return nil, no, err
	}
	rules, err := w.rulesOf(ctx, template, map[string]bool{})
	if err != nil {
		return nil, nil, err
	}
	no, err := w.checkEscalation(ctx, in, rules, binding.ClusterName)
	return nil, no, err
}

// exists reads an object without a namespace. It denies what names one that there is not.
func (w *webhook) exists(ctx context.Context, kind schema.GroupVersionKind, name string, into *unstructured.Unstructured) (*denial, error) {
	into.SetGroupVersionKind(kind)
	err := w.standin.api.Get(ctx, client.ObjectKey{Name: name}, into)
	if apierrors.IsNotFound(err) {
		return &denial{http.StatusBadRequest, fmt.Sprintf("the referenced %s was not found", kind.Kind)}, nil
	}
	return nil, err
}

// checkDuplicate denies a binding that gives nobody anything new.
func (w *webhook) checkDuplicate(ctx context.Context, binding *managementv3.ClusterRoleTemplateBinding) (*denial, error) {
	list := newList(bindingGVK)
	if err := w.standin.api.List(ctx, list, client.InNamespace(binding.Namespace)); err != nil {
		return nil, fmt.Errorf("listing bindings: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.GetName() == binding.Name || other.GetDeletionTimestamp() != nil || text(other, "roleTemplateName") != binding.RoleTemplateName {
			continue
		}
		for field, value := range map[string]string{
			"userName": binding.UserName, "userPrincipalName": binding.UserPrincipalName,
			"groupName": binding.GroupName, "groupPrincipalName": binding.GroupPrincipalName,
		} {
			if value != "" && text(other, field) == value {
				return &denial{http.StatusConflict, "duplicate crtb not allowed"}, nil
			}
		}
	}
	return nil, nil
}

// rulesOf returns the rules that count: of an external role template its externalRules, or without any those of the
// ClusterRole of its name in Rancher's cluster; its own; and those of what it inherits (pkg/auth/roleTemplate.go).
func (w *webhook) rulesOf(ctx context.Context, raw *unstructured.Unstructured, seen map[string]bool) ([]rbacv1.PolicyRule, error) {
	seen[raw.GetName()] = true
	template := &managementv3.RoleTemplate{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, template); err != nil {
		return nil, fmt.Errorf("reading role template %s: %w", raw.GetName(), err)
	}
	rules := template.Rules
	switch {
	case template.External && template.ExternalRules != nil:
		rules = append(rules, template.ExternalRules...)
	case template.External:
		backing := newObject(clusterRoleGVK)
		if err := w.standin.api.Get(ctx, client.ObjectKey{Name: template.Name}, backing); err != nil {
			return nil, fmt.Errorf("reading the ClusterRole of an external role template: %w", err)
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(backing.Object, role); err != nil {
			return nil, fmt.Errorf("reading ClusterRole %s: %w", template.Name, err)
		}
		rules = append(rules, role.Rules...)
	}
	for _, name := range template.RoleTemplateNames {
		if seen[name] {
			continue
		}
		next := newObject(roleTemplateGVK)
		if err := w.standin.api.Get(ctx, client.ObjectKey{Name: name}, next); err != nil {
			return nil, fmt.Errorf("reading role template %s: %w", name, err)
		}
		inherited, err := w.rulesOf(ctx, next, seen)
		if err != nil {
			return nil, err
		}
		rules = append(rules, inherited...)
	}
	return rules, nil
}

// checkEscalation asks of each rule whether the caller has it.
func (w *webhook) checkEscalation(ctx context.Context, in *admissionv1.AdmissionRequest, rules []rbacv1.PolicyRule, namespace string) (*denial, error) {
	for _, rule := range rules {
		for _, ask := range asked(rule, namespace) {
			allowed, err := w.allows(ctx, in, ask)
			if err != nil {
				return nil, err
			}
			if !allowed {
				return &denial{http.StatusUnprocessableEntity, fmt.Sprintf("user %q is attempting to grant RBAC permissions not currently held:\n%s", in.UserInfo.Username, rule.String())}, nil
			}
		}
	}
	return nil, nil
}

// asked are the questions that a rule consists of.
func asked(rule rbacv1.PolicyRule, namespace string) []authorizationv1.SubjectAccessReviewSpec {
	var all []authorizationv1.SubjectAccessReviewSpec
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, path := range rule.NonResourceURLs {
			all = append(all, authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb}})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					all = append(all, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: verb, Group: group, Resource: resource, Name: name,
					}})
				}
			}
		}
	}
	return all
}
