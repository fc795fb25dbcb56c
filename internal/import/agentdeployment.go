package importer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/plainyaml"
)

// Rancher has fields for where and with what its agent runs, and writes what stands there into the manifest of
// the agent. A tenant may set those parts of them that the administrator allows. Others, and what somebody sets
// in Rancher, stay as they are.

// Both kinds of Rancher cluster have a field for each of Rancher's agents, in the same form.
const (
	agentDeploymentField      = "clusterAgentDeploymentCustomization"
	fleetAgentDeploymentField = "fleetAgentDeploymentCustomization"
)

// agentField is such a field, and the annotation of CAPI clusters for it.
type agentField struct{ name, annotation string }

func agentFields() []agentField {
	return []agentField{
		{agentDeploymentField, archelonv1.AgentDeploymentAnnotation},
		{fleetAgentDeploymentField, archelonv1.FleetAgentDeploymentAnnotation},
	}
}

// Tolerations are the part of it that all clusters can have, too.
const (
	tolerationsPart  = "tolerations"
	tolerationsField = "appendTolerations"
)

// maxAgentDeploymentBytes is the largest text that is read of them.
const maxAgentDeploymentBytes = 8 << 10

// maxAgentTerms is how long a list in it may be.
const maxAgentTerms = 16

// agentPart is a part of the field that is allowed, or is not.
type agentPart struct {
	name string
	path []string
}

func agentParts() []agentPart {
	return []agentPart{
		{tolerationsPart, []string{tolerationsField}},
		{"node-affinity", []string{"overrideAffinity"}},
		{"resources", []string{"overrideResourceRequirements"}},
		{"priority-class", []string{"schedulingCustomization", "priorityClass"}},
		{"pod-disruption-budget", []string{"schedulingCustomization", "podDisruptionBudget"}},
	}
}

// propagated is what stands in PropagatedSettingsAnnotation for a part of a field.
func (f agentField) propagated(part string) string { return f.annotation + ":" + part }

// agentDeploymentText is what tenants may write: the fields of Rancher, without affinity between Pods, and with
// quantities that are texts until it is known how large they are.
type agentDeploymentText struct {
	AppendTolerations []corev1.Toleration `json:"appendTolerations"`
	OverrideAffinity  *struct {
		NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity"`
	} `json:"overrideAffinity"`
	OverrideResourceRequirements *struct {
		Limits   map[corev1.ResourceName]intstr.IntOrString `json:"limits"`
		Requests map[corev1.ResourceName]intstr.IntOrString `json:"requests"`
	} `json:"overrideResourceRequirements"`
	SchedulingCustomization *managementv3.AgentSchedulingCustomization `json:"schedulingCustomization"`
}

// agentDeployments has those that were read last. It belongs to the process, as the memory does that it saves.
//
//nolint:gochecknoglobals // see above
var agentDeployments = workload.NewTexts(256, parseAgentDeployment)

// read returns where and with what an agent of Rancher is to run, as far as that is allowed.
func (f agentField) read(annotations map[string]string, allowed []string) (map[string]any, error) {
	raw := annotations[f.annotation]
	if len(raw) > maxAgentDeploymentBytes {
		return nil, fmt.Errorf("it must have at most %d KiB", maxAgentDeploymentBytes>>10)
	}
	if strings.TrimSpace(raw) == "" {
		return nil, nil
	}
	content, err := agentDeployments.Parse(raw)
	if err != nil {
		return nil, err
	}
	for _, part := range agentParts() {
		if _, used, _ := unstructured.NestedFieldNoCopy(content, part.path...); used && !slices.Contains(allowed, part.name) {
			return nil, fmt.Errorf("it sets %[1]s, which is not allowed. Remove that, or ask your administrator to add %[1]q to the Helm value import.agentSettings", part.name)
		}
	}
	return runtime.DeepCopyJSON(content), nil
}

// parseAgentDeployment has the content as it stands in a Rancher cluster. Rancher puts it into a manifest, so nothing
// passes that is not of the form it should have.
func parseAgentDeployment(raw string) (map[string]any, error) {
	if err := plainyaml.Check([]byte(raw)); errors.Is(err, plainyaml.ErrAnchors) {
		return nil, errors.New("it uses YAML anchors, which are not supported: write out every value")
	} else if err != nil {
		return nil, errAgentDeployment()
	}
	text := agentDeploymentText{}
	if err := yaml.UnmarshalStrict([]byte(raw), &text); err != nil {
		return nil, errAgentDeployment() // The cause quotes the value.
	}
	whole := managementv3.AgentDeploymentCustomization{AppendTolerations: text.AppendTolerations, SchedulingCustomization: text.SchedulingCustomization}
	problem := checkTolerations(text.AppendTolerations)
	if text.OverrideAffinity != nil {
		whole.OverrideAffinity = &corev1.Affinity{NodeAffinity: text.OverrideAffinity.NodeAffinity}
		problem = errors.Join(problem, checkNodeAffinity(text.OverrideAffinity.NodeAffinity))
	}
	if text.OverrideResourceRequirements != nil {
		limits, err := quantities(text.OverrideResourceRequirements.Limits)
		requests, otherErr := quantities(text.OverrideResourceRequirements.Requests)
		whole.OverrideResourceRequirements = &corev1.ResourceRequirements{Limits: limits, Requests: requests}
		problem = errors.Join(problem, err, otherErr, checkLimits(limits, requests))
	}
	if text.SchedulingCustomization != nil {
		problem = errors.Join(problem, checkPriority(text.SchedulingCustomization.PriorityClass), checkBudget(text.SchedulingCustomization.PodDisruptionBudget))
	}
	if problem != nil {
		first, _, _ := strings.Cut(problem.Error(), "\n")
		return nil, errors.New(first)
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&whole)
}

func errAgentDeployment() error {
	return errors.New("it must have, in YAML or JSON, fields of Rancher's AgentDeploymentCustomization: appendTolerations, overrideAffinity.nodeAffinity, " +
		"overrideResourceRequirements, schedulingCustomization")
}

func checkTolerations(all []corev1.Toleration) error {
	if len(all) > maxAgentTerms {
		return fmt.Errorf("it must have at most %d tolerations", maxAgentTerms)
	}
	for i := range all {
		t := &all[i]
		exists := t.Operator == corev1.TolerationOpExists
		switch {
		case t.Key != "" && len(validation.IsQualifiedName(t.Key)) > 0, t.Key == "" && !exists:
			return errors.New("the key of a toleration must be that of a taint; without one its operator is Exists")
		case !exists && t.Operator != "" && t.Operator != corev1.TolerationOpEqual, exists && t.Value != "", len(validation.IsValidLabelValue(t.Value)) > 0:
			return errors.New("the operator of a toleration must be Equal, with the value of a taint, or Exists, without one")
		case !slices.Contains([]corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect),
			t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute:
			return errors.New("the effect of a toleration must be NoSchedule, PreferNoSchedule or NoExecute; tolerationSeconds goes with the latter alone")
		}
	}
	return nil
}

func checkNodeAffinity(affinity *corev1.NodeAffinity) error {
	if affinity == nil {
		return errors.New("overrideAffinity must have nodeAffinity")
	}
	var terms []corev1.NodeSelectorTerm
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		if terms = required.NodeSelectorTerms; len(terms) == 0 {
			return errors.New("the nodeSelectorTerms of a nodeAffinity must not be empty")
		}
	}
	for _, preferred := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		if preferred.Weight < 1 || preferred.Weight > 100 {
			return errors.New("the weight of a preferred nodeAffinity must be 1 to 100")
		}
		terms = append(slices.Clip(terms), preferred.Preference)
	}
	if len(terms) > maxAgentTerms {
		return fmt.Errorf("a nodeAffinity must have at most %d terms", maxAgentTerms)
	}
	for _, term := range terms {
		if len(term.MatchFields) > 0 || len(term.MatchExpressions) == 0 || len(term.MatchExpressions) > maxAgentTerms {
			return fmt.Errorf("a term of a nodeAffinity must have 1 to %d matchExpressions and nothing else", maxAgentTerms)
		}
		if slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return !selects(r) }) {
			return errors.New("a matchExpression of a nodeAffinity must have the key of a label, an operator of node selectors, and the values that it takes")
		}
	}
	return nil
}

// selects reports whether a requirement on nodes has the form that it should.
func selects(r corev1.NodeSelectorRequirement) bool {
	if len(validation.IsQualifiedName(r.Key)) > 0 || len(r.Values) > maxAgentTerms ||
		slices.ContainsFunc(r.Values, func(v string) bool { return len(validation.IsValidLabelValue(v)) > 0 }) {
		return false
	}
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		return len(r.Values) > 0
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		return len(r.Values) == 0
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		return len(r.Values) == 1 && regexp.MustCompile(`^-?[0-9]{1,18}$`).MatchString(r.Values[0])
	default:
		return false
	}
}

// quantities reads amounts of CPU and memory. To parse any quantity can take minutes and gigabytes: 1e999999999 is one.
func quantities(texts map[corev1.ResourceName]intstr.IntOrString) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for name, text := range texts {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			return nil, errors.New("overrideResourceRequirements must be about cpu and memory")
		}
		if !regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,3})?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$`).MatchString(text.String()) {
			return nil, errors.New(`a quantity in overrideResourceRequirements must be like "500m" or "256Mi"`)
		}
		quantity, err := resource.ParseQuantity(text.String())
		if err != nil {
			return nil, errors.New("a quantity in overrideResourceRequirements cannot be read")
		}
		list[name] = quantity
	}
	return list, nil
}

func checkLimits(limits, requests corev1.ResourceList) error {
	for name, limit := range limits {
		if request, ok := requests[name]; ok && request.Cmp(limit) > 0 {
			return errors.New("a request in overrideResourceRequirements must not be more than its limit")
		}
	}
	return nil
}

// maxPriority is the highest that is not of the system.
const maxPriority = 1_000_000_000

func checkPriority(class *managementv3.PriorityClassSpec) error {
	if class == nil {
		return nil
	}
	if class.Value < -maxPriority || class.Value > maxPriority {
		return fmt.Errorf("the value of priorityClass must be within %d and %d", -maxPriority, maxPriority)
	}
	if policy := class.PreemptionPolicy; policy != nil && *policy != corev1.PreemptNever && *policy != corev1.PreemptLowerPriority {
		return errors.New("the preemptionPolicy of priorityClass must be Never or PreemptLowerPriority")
	}
	return nil
}

func checkBudget(budget *managementv3.PodDisruptionBudgetSpec) error {
	if budget == nil {
		return nil
	}
	one := budget.MinAvailable + budget.MaxUnavailable
	if (budget.MinAvailable == "") == (budget.MaxUnavailable == "") || !regexp.MustCompile(`^([0-9]{1,4}|([0-9]|[1-9][0-9]|100)%)$`).MatchString(one) {
		return errors.New(`podDisruptionBudget must have one of minAvailable and maxUnavailable, a number or a percentage in quotes`)
	}
	return nil
}

// addAgentDeployment adds to a record where and with what the agents are to run.
func (r Rules) addAgentDeployment(desired *Desired) error {
	desired.AgentDeployment = map[string]map[string]any{}
	for _, field := range agentFields() {
		content, err := field.read(desired.Cluster.Annotations, r.AgentSettings)
		if err != nil {
			return invalidSetting(field.annotation, err)
		}
		for _, part := range agentParts() {
			if _, used, _ := unstructured.NestedFieldNoCopy(content, part.path...); used {
				addPropagated(desired, field.propagated(part.name)) // By that it is known what to take off again.
			}
		}
		if len(content) > 0 {
			desired.AgentDeployment[field.name] = content
		}
	}
	return nil
}

// addPropagated adds a name to PropagatedSettingsAnnotation of a record, unless it is there.
func addPropagated(desired *Desired, name string) {
	var names []string
	if before := desired.Annotations[archelonv1.PropagatedSettingsAnnotation]; before != "" {
		names = strings.Split(before, ",")
	}
	if !slices.Contains(names, name) {
		desired.Annotations[archelonv1.PropagatedSettingsAnnotation] = strings.Join(append(names, name), ",")
	}
}

// patch returns what brings the field of a Rancher cluster to what is wanted, part by part. A part that was never given
// stays as it is.
func (f agentField) patch(observed client.Object, have, want map[string]any) (map[string]any, error) {
	patch := map[string]any{}
	for _, part := range agentParts() {
		is, _, _ := unstructured.NestedFieldNoCopy(have, part.path...)
		wanted, _, _ := unstructured.NestedFieldNoCopy(want, part.path...)
		if equality.Semantic.DeepEqual(is, wanted) || wanted == nil && !wasGiven(observed, f.propagated(part.name)) {
			continue
		}
		if err := unstructured.SetNestedField(patch, mergeOf(is, wanted), part.path...); err != nil {
			return nil, fmt.Errorf("changing %s of the agent: %w", part.name, err)
		}
	}
	return patch, nil
}

// mergeOf returns the JSON merge patch that has one value become another.
func mergeOf(is, wanted any) any {
	from, fromMap := is.(map[string]any)
	to, toMap := wanted.(map[string]any)
	if !fromMap || !toMap {
		return wanted
	}
	patch := map[string]any{}
	for key := range from {
		if _, stays := to[key]; !stays {
			patch[key] = nil
		}
	}
	for key, value := range to {
		if !equality.Semantic.DeepEqual(from[key], value) {
			patch[key] = mergeOf(from[key], value)
		}
	}
	return patch
}
