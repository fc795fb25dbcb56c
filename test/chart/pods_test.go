package chart_test

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// checkPods wants all Pods to be accepted in namespaces that enforce the Pod Security Standard "restricted", and their
// images to be those of the chart.
func checkPods(t *testing.T, rendered []*unstructured.Unstructured, on []string) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	pods := 0
	selectors := selectorsOf(t, rendered)
	for _, object := range rendered {
		if kind := object.GetKind(); kind != "Deployment" && kind != "Job" {
			continue
		}
		pods++
		// Where the template of the Pods is in a Job, it is in a Deployment.
		workload := &batchv1.Job{}
		template, _, _ := unstructured.NestedMap(object.Object, "spec", "template")
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &workload.Spec.Template); err != nil {
			t.Fatal(err)
		}
		pod := &workload.Spec.Template
		if result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec)); !result.Allowed {
			t.Errorf("%s is not restricted: %s", id(object), result.ForbiddenDetail())
		}
		checkPodLabels(t, object, pod, selectors, on)
		checkContainers(t, object, pod)
	}
	if want := workloads(on); pods != want {
		t.Errorf("there are %d workloads, want %d", pods, want)
	}
}

// checkPodLabels wants the Pods of the Deployment to be selected, and no others, and all to have what the values add.
func checkPodLabels(t *testing.T, object *unstructured.Unstructured, pod *corev1.PodTemplateSpec, selectors map[string]labels.Selector, on []string) {
	t.Helper()
	for name, selector := range selectors {
		if selected := selector.Matches(labels.Set(pod.Labels)); selected != (object.GetKind() == "Deployment") {
			t.Errorf("%s selects the Pods of %s: %t", name, id(object), selected)
		}
	}
	if slices.Contains(on, "everything") && (pod.Labels["example.com/sidecar"] != "no" || pod.Annotations["a"] != "b") {
		t.Errorf("the Pods of %s have labels %v and annotations %v", id(object), pod.Labels, pod.Annotations)
	}
}

func checkContainers(t *testing.T, object *unstructured.Unstructured, pod *corev1.PodTemplateSpec) {
	t.Helper()
	for _, container := range pod.Spec.Containers {
		if security := container.SecurityContext; security == nil || security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
			t.Errorf("%s: container %s may write to its image", id(object), container.Name)
		}
		if container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: container %s has no memory set", id(object), container.Name)
		}
	}
}

// selectorsOf returns what Pods are selected by, by who does it.
func selectorsOf(t *testing.T, rendered []*unstructured.Unstructured) map[string]labels.Selector {
	t.Helper()
	found := map[string]labels.Selector{}
	for _, object := range rendered {
		path := []string{"spec", "selector", "matchLabels"}
		switch object.GetKind() {
		case "Deployment", "PodDisruptionBudget":
		case "Service":
			path = path[:2]
		case "NetworkPolicy":
			path[1] = "podSelector"
		default:
			continue
		}
		set, ok, err := unstructured.NestedStringMap(object.Object, path...)
		if err != nil || !ok {
			t.Fatalf("%s has no selector: %v", id(object), err)
		}
		found[id(object)] = labels.SelectorFromSet(set)
	}
	return found
}

// workloads are the manager and, unless it is off, the uninstaller.
func workloads(on []string) int {
	if slices.Contains(on, "bare") {
		return 1
	}
	return 2
}
