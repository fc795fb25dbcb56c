package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/charts"
)

const (
	permissionsID = "permissions"
	// reviewsAtOnce is how many questions are asked at a time.
	reviewsAtOnce = 10
	// mostNamed is how many of the permissions that are missing are named.
	mostNamed = 10
)

// granted are the permissions of a package, as the chart has them.
type granted struct {
	Cluster   []rbacv1.PolicyRule `json:"cluster"`
	Namespace []rbacv1.PolicyRule `json:"namespace"`
	// When is what they are needed for: always, if it is empty.
	When string `json:"when"`
	// Rancher is whether they are needed in Rancher's cluster.
	Rancher bool `json:"rancher"`
}

// side is a cluster in which permissions are needed.
type side int

const (
	// here is where the manager runs.
	here side = iota
	// rancherSide is Rancher's cluster, where that is another one.
	rancherSide
)

// needed reports whether an installation needs them.
func (g granted) needed(gates featuregate.FeatureGate, imports, named bool) bool {
	gate, off := strings.CutPrefix(g.When, "-")
	switch g.When {
	case "", "metrics":
		return true
	case "import":
		return imports
	case "isolated":
		return named
	case "cluster-class-labels":
		return false // It is a value of the chart that no flag of this command stands for.
	default:
		return gates.Enabled(featuregate.Feature(gate)) != off && (imports || !off)
	}
}

// permissions asks the API server for each permission that the manager needs: whether the ServiceAccount has it, or the
// caller, who has to have what the roles of the chart give.
func (c *checker) permissions(ctx context.Context) []Finding {
	questions, err := c.questions(here)
	if err != nil {
		return []Finding{{ID: permissionsID, State: Error, Message: sentence(err.Error())}}
	}
	lacking, err := lacks(ctx, questions, c.review)
	if err != nil {
		return []Finding{unseen(permissionsID, "What is permitted", err)}
	}
	return []Finding{c.judgeLacking(lacking, len(questions))}
}

// lacks returns the permissions that are not there. It fails if that cannot be found out.
func lacks(
	ctx context.Context, questions []authorizationv1.ResourceAttributes, review func(context.Context, authorizationv1.ResourceAttributes) error,
) ([]string, error) {
	answers := make([]error, len(questions))
	workqueue.ParallelizeUntil(ctx, reviewsAtOnce, len(questions), func(i int) { answers[i] = review(ctx, questions[i]) })
	var lacking []string
	for i, err := range answers {
		switch {
		case errors.Is(err, errDenied):
			lacking = append(lacking, describe(questions[i]))
		case err != nil:
			return nil, err
		}
	}
	return lacking, ctx.Err()
}

func (c *checker) judgeLacking(lacking []string, of int) Finding {
	who, remedy := "The caller has", "Install as somebody who has them, or who may bind and escalate ClusterRoles: a role cannot give more than its creator has. "+
		"If the chart creates the roles already, check with --service-account."
	if c.ServiceAccount != "" {
		who, remedy = "ServiceAccount "+c.ServiceAccount+" has", "Install or upgrade the chart with the same gates and namespaces, and look whether its bindings are there."
	}
	if len(lacking) == 0 {
		return Finding{ID: permissionsID, State: OK, Message: fmt.Sprintf("%s all %d permissions that the manager needs.", who, of)}
	}
	who = strings.TrimSuffix(who, "has") + "lacks"
	return Finding{ID: permissionsID, State: Error, Message: who + ": " + name(lacking) + ".", Remedy: remedy}
}

// name names the first of the permissions that are missing.
func name(lacking []string) string {
	if more := len(lacking) - mostNamed; more > 0 {
		return strings.Join(lacking[:mostNamed], "; ") + fmt.Sprintf(", and %d more", more)
	}
	return strings.Join(lacking, "; ")
}

// questions are all permissions that are needed in a cluster, each once. What is needed in namespaces is asked of each
// that is named, else of all.
func (c *checker) questions(in side) ([]authorizationv1.ResourceAttributes, error) {
	files := charts.Permissions()
	names, err := fs.Glob(files, "archelon/files/permissions/*.yaml")
	if err != nil {
		return nil, err
	}
	namespaces := c.claim.Scope.Included()
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var all []authorizationv1.ResourceAttributes
	for _, name := range names {
		raw, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var g granted
		if err := yaml.Unmarshal(raw, &g); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path.Base(name), err)
		}
		if !g.needed(c.Gates, c.Import, len(c.Namespaces) > 0) || !c.asked(g, in) {
			continue
		}
		all = append(all, expand(g.Cluster, metav1.NamespaceAll)...)
		if in == rancherSide {
			continue // A v3 Cluster has no namespace.
		}
		for _, namespace := range namespaces {
			all = append(all, expand(g.Namespace, namespace)...)
		}
	}
	slices.SortFunc(all, func(a, b authorizationv1.ResourceAttributes) int { return strings.Compare(describe(a), describe(b)) })
	return slices.CompactFunc(all, func(a, b authorizationv1.ResourceAttributes) bool { return describe(a) == describe(b) }), nil
}

// asked reports whether the chart gives permissions in a cluster, as its template archelon.rules does.
func (c *checker) asked(g granted, in side) bool {
	switch {
	case in == rancherSide:
		return g.Rancher
	case c.remote():
		return !g.Rancher
	default:
		return true
	}
}

// expand returns what rules permit, one by one.
func expand(rules []rbacv1.PolicyRule, namespace string) []authorizationv1.ResourceAttributes {
	var all []authorizationv1.ResourceAttributes
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource, subresource, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all = append(all, authorizationv1.ResourceAttributes{
							Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
						})
					}
				}
			}
		}
	}
	return all
}

// describe names a permission as kubectl does.
func describe(a authorizationv1.ResourceAttributes) string {
	text := a.Verb + " " + a.Resource
	if a.Group != "" {
		text += "." + a.Group
	}
	if a.Subresource != "" {
		text += "/" + a.Subresource
	}
	if a.Name != "" {
		text += " " + a.Name
	}
	if a.Namespace != "" {
		text += " in " + a.Namespace
	}
	return text
}

// errDenied is that a permission is not there.
var errDenied = errors.New("not permitted")

// review asks for one permission.
func (c *checker) review(ctx context.Context, a authorizationv1.ResourceAttributes) error {
	if c.ServiceAccount == "" {
		return selfReview(c.clients)(ctx, a)
	}
	namespace, name, err := splitAccount(c.ServiceAccount)
	if err != nil {
		return err
	}
	answer, err := c.clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + namespace + ":" + name,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &a,
		},
	}, metav1.CreateOptions{})
	if err == nil && !answer.Status.Allowed {
		return errDenied
	}
	return err
}

// selfReview asks a cluster for a permission of who asks.
func selfReview(clients kubernetes.Interface) func(context.Context, authorizationv1.ResourceAttributes) error {
	return func(ctx context.Context, a authorizationv1.ResourceAttributes) error {
		answer, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			return errDenied
		}
		return err
	}
}

// splitAccount reads "<namespace>/<name>".
func splitAccount(text string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", fmt.Errorf("--service-account is %q; it has to be <namespace>/<name>", text)
	}
	return namespace, name, nil
}
