package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/archelon-io/archelon/internal/controller"
)

// What Kubernetes has to be, as the chart has it, and where fields of CRDs are selectable for good.
const (
	oldest     = "1.30.0-0"
	selectable = "1.32.0-0"
)

// ours is what CRDs of the chart say that they are of.
const ours = "Archelon"

// kubernetes looks at the version of the management cluster, and at what depends on it. It fails if there is no answer.
func (c *checker) kubernetes() ([]Finding, error) {
	discovery := c.clients.Discovery() // the time limit of the client bounds it
	info, err := discovery.ServerVersion()
	if err != nil {
		return nil, err
	}
	found := []Finding{c.versionOf(info.GitVersion)}
	const id = "admission-policies"
	switch resources, err := discovery.ServerResourcesForGroupVersion(admissionregistrationv1.SchemeGroupVersion.String()); {
	case err != nil && !apierrors.IsNotFound(err):
		found = append(found, unseen(id, "What the API server knows of admission", err))
	case err == nil && slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == "validatingadmissionpolicies" }):
		found = append(found, Finding{ID: id, State: OK, Message: "ValidatingAdmissionPolicies are served."})
	default:
		found = append(found, Finding{
			ID: id, State: Error, Message: "ValidatingAdmissionPolicies are not served.",
			Remedy: "Have the API server serve admissionregistration.k8s.io/v1, which has them since Kubernetes 1.30.",
		})
	}
	return found, nil
}

// versionOf judges the version of the management cluster.
func (c *checker) versionOf(text string) Finding {
	f := Finding{ID: "kubernetes-version", State: OK, Message: fmt.Sprintf("The management cluster has Kubernetes %s.", text)}
	is, err := version.ParseSemantic(text)
	if err != nil {
		f.State, f.Remedy = Warning, "See that it is 1.30 or newer."
		return f
	}
	needs := slices.ContainsFunc(c.controllers(), func(one controller.Controller) bool {
		return slices.ContainsFunc(one.CRDs, func(crd controller.CRD) bool { return crd.Selectable != "" })
	})
	switch {
	case is.LessThan(version.MustParseSemantic(oldest)):
		f.State, f.Remedy = Error, "Upgrade it to 1.30 or newer: ValidatingAdmissionPolicies are stable since then."
	case needs && is.LessThan(version.MustParseSemantic(selectable)):
		f.State, f.Remedy = Warning, "Upgrade it to 1.32 or newer: gate host-claim needs fields of CRDs that can be selected by."
	}
	return f
}

// kinds looks at the CRDs that the controllers need. One that is optional for a controller, another one may need.
func (c *checker) kinds(ctx context.Context) []Finding {
	var crds []controller.CRD
	for _, one := range c.controllers() {
		crds = append(crds, one.CRDs...)
	}
	var found []Finding
	seen := map[string]bool{}
	for _, needed := range crds {
		required := func(other controller.CRD) bool { return other.Name == needed.Name && !other.Optional }
		needed.Optional = !slices.ContainsFunc(crds, required)
		unreached := c.remote() && c.elsewhere == nil && needed.Of == controller.Rancher()
		if !seen[needed.Name] && !unreached {
			seen[needed.Name] = true
			found = append(found, c.kind(ctx, needed))
		}
	}
	return found
}

func (c *checker) kind(ctx context.Context, needed controller.CRD) Finding {
	id := "crd-" + needed.Name
	crd, err := c.find(ctx, needed)
	if err != nil {
		return unseen(id, "CRD "+needed.Name, err)
	}
	return judge(id, needed, crd)
}

// find returns a CRD, nil if there is none.
func (c *checker) find(ctx context.Context, needed controller.CRD) (*apiextensionsv1.CustomResourceDefinition, error) {
	if c.elsewhere != nil && needed.Of == controller.Rancher() {
		return c.elsewhere.find(ctx, needed.Name)
	}
	crd, err := c.crds.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, needed.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	return crd, err
}

// judge says what a CRD lacks, nil if there is none.
func judge(id string, needed controller.CRD, crd *apiextensionsv1.CustomResourceDefinition) Finding {
	lack := needed.Lack(crd)
	switch {
	case lack == "":
		return Finding{ID: id, State: OK, Message: fmt.Sprintf("%s of %s serves %s.", needed.Name, needed.Of.Name, needed.Version)}
	case crd == nil && needed.Optional:
		return Finding{ID: id, State: OK, Message: fmt.Sprintf("CRD %s does not exist, and is not needed.", needed.Name)}
	case crd == nil && needed.Of.Name == ours:
		return Finding{
			ID: id, State: Warning, Message: fmt.Sprintf("CRD %s is not there yet.", needed.Name),
			Remedy: "The chart installs it, unless crds.install is false.",
		}
	}
	what, _, _ := strings.Cut(lack, "; ")
	return Finding{ID: id, State: Error, Message: what + ".", Remedy: "Install or upgrade " + needed.Of.Name + ": " + needed.Of.Needed + "."}
}
