package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// granted returns the rules of all roles that the manager is bound to, by role.
func (l *fullLife) granted(ctx context.Context) map[string][]rbacv1.PolicyRule {
	GinkgoHelper()
	var objects []unstructured.Unstructured
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind + "List"))
		Expect(l.Client.List(ctx, list)).To(Succeed())
		objects = append(objects, list.Items...)
	}
	return rulesOf(objects, stage.SystemNamespace, stage.ServiceAccount)
}

// reviewed returns what others have asked the API server about the manager, as requests of the manager: Rancher's
// webhook asks whether whoever makes a record with a workspace has it.
func (l *fullLife) reviewed() []auditv1.Event {
	GinkgoHelper()
	events, err := l.Management.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	var asked []auditv1.Event
	for _, e := range events {
		if e.ObjectRef == nil || e.ObjectRef.Resource != "subjectaccessreviews" || e.ResponseObject == nil {
			continue
		}
		review := &authorizationv1.SubjectAccessReview{}
		Expect(json.Unmarshal(e.ResponseObject.Raw, review)).To(Succeed())
		about := review.Spec.ResourceAttributes
		if e.User.Username == importing.User || review.Spec.User != importing.User || about == nil {
			continue
		}
		code := int32(http.StatusOK)
		if !review.Status.Allowed {
			code = http.StatusForbidden
		}
		asked = append(asked, auditv1.Event{
			RequestReceivedTimestamp: e.RequestReceivedTimestamp, RequestURI: e.RequestURI, Verb: about.Verb,
			ObjectRef:      &auditv1.ObjectReference{APIGroup: about.Group, Resource: about.Resource, Subresource: about.Subresource, Name: about.Name},
			Annotations:    map[string]string{authorizedBy: review.Status.Reason},
			ResponseStatus: &metav1.Status{Code: code},
		})
	}
	return asked
}

// rulesOf returns the rules of those roles among the objects that a ServiceAccount is bound to, by role.
func rulesOf(objects []unstructured.Unstructured, namespace, account string) map[string][]rbacv1.PolicyRule {
	GinkgoHelper()
	find := func(kind, namespace, name string) []rbacv1.PolicyRule {
		GinkgoHelper()
		for i := range objects {
			if o := &objects[i]; o.GetKind() == kind && o.GetName() == name && (kind == "ClusterRole" || o.GetNamespace() == namespace) {
				role := &rbacv1.ClusterRole{} // A Role has no fields that it has not.
				Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role)).To(Succeed())
				return role.Rules
			}
		}
		Fail(roleKey(kind, name) + " does not exist")
		return nil
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for i := range objects {
		if kind := objects[i].GetKind(); kind != "ClusterRoleBinding" && kind != "RoleBinding" {
			continue
		}
		binding := &rbacv1.RoleBinding{} // A ClusterRoleBinding has the same fields.
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, binding)).To(Succeed())
		if slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Namespace == namespace && s.Name == account }) {
			ref := binding.RoleRef
			rules[roleKey(ref.Kind, ref.Name)] = find(ref.Kind, binding.Namespace, ref.Name)
		}
	}
	Expect(rules).NotTo(BeEmpty())
	return rules
}

func roleKey(kind, name string) string { return fmt.Sprintf("%s %q", kind, name) }

// authorizedBy is where the API server says in its audit log why a request was allowed.
const authorizedBy = "authorization.k8s.io/reason"

// allowedBy is how it names the role.
var allowedBy = regexp.MustCompile(`^RBAC: allowed by \S+ "[^"]+" of ((?:Cluster)?Role "[^"]+") to `)

// unused returns what the rules grant and no request asked for, as "role: verb resource.group". Each verb has to be
// used for each resource, and each name with some verb.
func unused(granted map[string][]rbacv1.PolicyRule, requests []auditv1.Event) []string {
	did := map[string]bool{}
	for _, e := range requests {
		role := allowedBy.FindStringSubmatch(e.Annotations[authorizedBy])
		if e.ObjectRef == nil || role == nil {
			continue
		}
		resource := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			resource += "/" + e.ObjectRef.Subresource
		}
		resource += "." + e.ObjectRef.APIGroup
		did[role[1]+": "+e.Verb+" "+resource] = true
		if e.Verb == "patch" && e.ResponseStatus.Code == http.StatusCreated {
			did[role[1]+": create "+resource] = true // An apply that creates needs both rights; the log has the first.
		}
		did[role[1]+": "+resource+" "+e.ObjectRef.Name] = true
	}
	var idle []string
	for role, rules := range granted {
		for _, right := range rights(rules) {
			if !did[role+": "+right] {
				idle = append(idle, role+": "+right)
			}
		}
	}
	return idle
}

// rights takes rules apart.
func rights(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, verb+" "+resource+"."+group)
				}
				for _, name := range rule.ResourceNames {
					all = append(all, resource+"."+group+" "+name)
				}
			}
		}
	}
	return all
}
