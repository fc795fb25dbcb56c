package members

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/providers/capi/plainyaml"
)

// Limits of what tenants write. Rancher creates several objects for each binding, and a User for a
// principal that it has not met.
const (
	maxBytes     = 8 << 10
	maxMembers   = 50
	maxPrincipal = 256
)

// Member is one entry of the annotation. One of Group and User is set, to a principal of Rancher's.
type Member struct {
	Role  string `json:"role"`
	Group string `json:"group,omitempty"`
	User  string `json:"user,omitempty"`
}

func (m Member) principal() string { return m.Group + m.User }

// principalForm is how Rancher writes principals: the provider, and what that calls them. Names without a provider
// would be those of Kubernetes, such as system:masters.
var principalForm = regexp.MustCompile(`^[a-z0-9_]+://.+`)

// parse reads the annotation. Its errors go into a condition, so they quote nothing.
func parse(raw string) ([]Member, error) {
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("it must have at most %d KiB", maxBytes>>10)
	}
	if strings.TrimSpace(raw) == "" {
		return nil, nil
	}
	// Before anything expands anchors: a few bytes of them become gigabytes.
	plain := plainyaml.Check([]byte(raw))
	if errors.Is(plain, plainyaml.ErrAnchors) {
		return nil, errors.New("it uses YAML anchors, which are not supported: write out every value")
	}
	var members []Member
	if plain != nil || yaml.UnmarshalStrict([]byte(raw), &members) != nil {
		return nil, errors.New(`it must be a list in YAML or JSON, for example [{"role": "cluster-member", "group": "okta_group://team-a"}]`)
	}
	if len(members) > maxMembers {
		return nil, fmt.Errorf("it must have at most %d members", maxMembers)
	}
	for i, member := range members {
		if err := member.check(); err != nil {
			return nil, fmt.Errorf("member %d: %w", i+1, err)
		}
	}
	return members, nil
}

func (m Member) check() error {
	switch principal := m.principal(); {
	case len(validation.IsDNS1123Subdomain(m.Role)) > 0:
		return errors.New("role must be the name of a role template")
	case (m.Group == "") == (m.User == ""):
		return errors.New("it must have either a group or a user")
	case len(principal) > maxPrincipal || !principalForm.MatchString(principal) || !printable(principal):
		return fmt.Errorf("group or user must be a principal of Rancher such as okta_group://team-a, of at most %d bytes", maxPrincipal)
	}
	return nil
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Policy is what an administrator allows.
type Policy struct {
	// Roles are the role templates that may be asked for.
	Roles []string
	// Principals are what principals may begin with, the provider included.
	Principals []string
}

// Validate reports lists that nobody can have meant.
func (p Policy) Validate() error {
	if len(p.Roles) == 0 || len(p.Principals) == 0 {
		return errors.New("name at least one role template, and one beginning of principals, that members may have")
	}
	var problems []error
	for _, role := range p.Roles {
		if len(validation.IsDNS1123Subdomain(role)) > 0 {
			problems = append(problems, fmt.Errorf("%q must be the name of a role template", role))
		}
	}
	for _, prefix := range p.Principals {
		provider, _, ok := strings.Cut(prefix, "://")
		if !ok || !principalForm.MatchString(prefix+"x") || provider == "system" {
			problems = append(problems, fmt.Errorf("%q must be what principals of a provider begin with, such as okta_group://", prefix))
		}
	}
	return errors.Join(problems...)
}

func (p Policy) allows(m Member) bool {
	return slices.Contains(p.Roles, m.Role) &&
		slices.ContainsFunc(p.Principals, func(prefix string) bool { return strings.HasPrefix(m.principal(), prefix) })
}

// namePrefix is that of all bindings of this package.
const namePrefix = "archelon-"

// nameFor is the name of the binding of a member, of an incarnation of a CAPI Cluster.
func nameFor(uid types.UID, m Member) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(uid), m.Role, m.Group, m.User}, "\n")))
	return namePrefix + hex.EncodeToString(sum[:16])
}

// bindingFor is what Rancher is to have for a member.
func bindingFor(cluster *clusterv1.Cluster, rancher string, m Member) *managementv3.ClusterRoleTemplateBinding {
	return &managementv3.ClusterRoleTemplateBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: rancher, Name: nameFor(cluster.UID, m), Labels: map[string]string{
			archelonv1.OwnerUIDLabel:       string(cluster.UID),
			archelonv1.OwnerNameLabel:      cluster.Name,
			archelonv1.OwnerNamespaceLabel: cluster.Namespace,
		}},
		ClusterName: rancher, RoleTemplateName: m.Role, GroupPrincipalName: m.Group, UserPrincipalName: m.User,
	}
}

// memberOf is whom a binding is for. Rancher adds the name of the User to one for a user.
func memberOf(b *managementv3.ClusterRoleTemplateBinding) Member {
	return Member{Role: b.RoleTemplateName, Group: b.GroupPrincipalName, User: b.UserPrincipalName}
}

// isOurs reports whether a binding was created here for an incarnation of a CAPI Cluster.
func isOurs(b *managementv3.ClusterRoleTemplateBinding, uid types.UID) bool {
	return strings.HasPrefix(b.Name, namePrefix) && b.Labels[archelonv1.OwnerUIDLabel] == string(uid)
}
