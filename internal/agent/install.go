package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/connection"
)

const (
	cleanupLabel  = "cattle.io/creator"
	cleanupValue  = "norman"
	cleanupPrefix = "cattle-cleanup-"

	// enforceLabel of a namespace is the level of Pod Security that it enforces.
	enforceLabel = "pod-security.kubernetes.io/enforce"

	// cleanupRecheck is when the end of a clean-up in a workload cluster, which is not watched, is looked for again at
	// first.
	cleanupRecheck = 5 * time.Second
)

// Install applies the objects of Rancher's manifest. It takes fields over from others only if it is forced to.
func Install(ctx context.Context, cluster *workload.Client, objects []*unstructured.Unstructured, force bool) error {
	return named(cluster.Apply(ctx, objects, force))
}

// Site is a workload cluster, as far as it is about the agent.
type Site struct {
	*workload.Client
	// PodSecurity is the level of Pod Security that namespace cattle-system enforces if it is created here; empty for
	// that of the workload cluster.
	PodSecurity string
}

// Inspect looks at the agent.
func (s Site) Inspect(ctx context.Context) (State, error) { return Inspect(ctx, s.Client) }

// NoCleanup fails as long as a clean-up of Rancher is running.
func (s Site) NoCleanup(ctx context.Context) error { return NoCleanup(ctx, s.Client) }

// Install applies the objects of Rancher's manifest. It reports whether the API server warned that their Pods violate
// Pod Security. That is no failure: what it warns of is not always enforced.
func (s Site) Install(ctx context.Context, objects []*unstructured.Unstructured, force bool) (warned bool, err error) {
	if s.PodSecurity != "" {
		// A namespace that exists stays as it is. What is applied below leaves the label alone.
		enforced := map[string]string{enforceLabel: s.PodSecurity}
		if err := s.CreateNamespace(ctx, Namespace, enforced); err != nil {
			return false, named(err)
		}
	}
	ctx, warnings := workload.WithWarnings(ctx)
	err = Install(ctx, s.Client, objects, force)
	return slices.ContainsFunc(warnings.Texts(), func(text string) bool { return strings.Contains(text, "violate PodSecurity") }), err
}

// named gives a Problem of the workload cluster the name that it has if it is about the agent.
func named(err error) error {
	problem, ok := errors.AsType[*outcome.Problem](err)
	if !ok {
		return err
	}
	agents := *problem
	switch problem.Reason {
	case connection.RejectedReason:
		agents.Reason = archelonv1.AgentRejectedReason
	case connection.ConflictReason:
		agents.Reason = archelonv1.AgentConflictReason
	case workload.TerminatingReason: // As Rancher's clean-up of an earlier registration leaves it.
		agents.Reason = archelonv1.WaitingForCleanupReason
	}
	return &agents
}

// NoCleanup fails as long as a clean-up of Rancher is running in the workload cluster: it would remove the new agent as
// well.
func NoCleanup(ctx context.Context, cluster *workload.Client) error {
	pending, err := cleanupPending(ctx, cluster)
	if err != nil {
		return fmt.Errorf("looking for Rancher's clean-up: %w", named(err))
	}
	if pending == "" {
		return nil
	}
	return &outcome.Problem{
		Kind: outcome.KindPoll, Reason: archelonv1.WaitingForCleanupReason, After: cleanupRecheck,
		Message: fmt.Sprintf("Waiting for Rancher's clean-up of an earlier import in the workload cluster: "+
			"%s has not ended. After 5 minutes, check its Events there", pending),
	}
}

// cleanupPending names what Rancher still removes an earlier registration with, "" if nothing: the Job that does it and
// is under way, in any namespace, or the namespace of the agent, which is being deleted. A Job that has failed for
// good, or was not able to delete itself, does nothing any more. These are two requests, more only where there are many
// Jobs with Rancher's label.
func cleanupPending(ctx context.Context, cluster *workload.Client) (string, error) {
	jobs := batchv1.SchemeGroupVersion.WithKind("Job")
	job, err := cluster.Find(ctx, jobs, labels.Set{cleanupLabel: cleanupValue}, cleansUp)
	if err != nil {
		return "", err
	}
	if job != nil {
		return nameOfJob(job), nil
	}
	namespace := &struct {
		Metadata objectMeta `json:"metadata"`
	}{}
	key := client.ObjectKey{Name: Namespace}
	_, err = cluster.Get(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), key, namespace)
	if err != nil || namespace.Metadata.DeletionTimestamp == nil {
		return "", err
	}
	return "Namespace " + Namespace, nil
}

// nameOfJob names a Job, unless a stranger's text stands where its name should be.
func nameOfJob(job *unstructured.Unstructured) string {
	if len(validation.IsDNS1123Label(job.GetNamespace())) > 0 || len(validation.IsDNS1123Subdomain(job.GetName())) > 0 {
		return "a Job " + cleanupPrefix + "*"
	}
	return "Job " + job.GetNamespace() + "/" + job.GetName()
}

// cleansUp reports whether a Job is a clean-up of Rancher that has not ended.
func cleansUp(job *unstructured.Unstructured) bool {
	if job.GetGenerateName() != cleanupPrefix {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	return !slices.ContainsFunc(conditions, func(entry any) bool {
		condition, _ := entry.(map[string]any)
		kind, status := condition["type"], condition["status"]
		return (kind == string(batchv1.JobComplete) || kind == string(batchv1.JobFailed)) && status == string(corev1.ConditionTrue)
	})
}
