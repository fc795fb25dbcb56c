package chart_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// backoff is the Job controller's pause after the first failure of a Job. Each further one is twice as long.
	backoff = 10 * time.Second
	// start is what a Pod may take from when it is made until its program counts its time.
	start = 5 * time.Second
)

// "helm uninstall" has to end with what the Job has to say, and not because Helm gave up before. So all tries of the
// Job, with the pauses between them, fit into the Job's deadline, and the deadline into the time that Helm waits.
func TestUninstallEndsBeforeHelm(t *testing.T) {
	const sum = 50 * time.Second // besides the tries: what values.yaml and docs/operations/uninstall.md tell people
	for name, test := range map[string]struct {
		set   values
		waits func(try time.Duration) time.Duration
	}{
		"Default": {values{}, func(time.Duration) time.Duration { return helmTimeout(t) }},
		"Quick":   {values{"uninstall": values{"timeoutSeconds": 10}}, func(try time.Duration) time.Duration { return 3*try + sum }},
		"Long":    {values{"uninstall": values{"timeoutSeconds": 86400}}, func(try time.Duration) time.Duration { return 3*try + sum }},
	} {
		t.Run(name, func(t *testing.T) {
			job := uninstallJob(t, test.set)
			try, needed := tries(t, job)
			deadline := time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second
			if deadline < needed {
				t.Errorf("the deadline is %s, and all tries of %s take up to %s", deadline, try, needed)
			}
			last := deadline + time.Duration(*job.Spec.Template.Spec.TerminationGracePeriodSeconds)*time.Second
			if waits := test.waits(try); last > waits {
				t.Errorf("it may end after %s, and Helm waits %s", last, waits)
			}
		})
	}
}

// tries returns how long a try of the Job may take, and how long all of them with what is between them.
func tries(t *testing.T, job *batchv1.Job) (try, all time.Duration) {
	t.Helper()
	for _, arg := range job.Spec.Template.Spec.Containers[0].Args {
		if limit, ok := strings.CutPrefix(arg, "--timeout="); ok {
			try = duration(t, limit)
		}
	}
	all = start + try
	for i := range *job.Spec.BackoffLimit {
		all += backoff<<i + start + try
	}
	return try, all
}

// helmTimeout is the default of "helm uninstall --timeout".
func helmTimeout(t *testing.T) time.Duration {
	t.Helper()
	help, err := run(t.Context(), ".", nil, programs["helm"], "uninstall", "--help")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`--timeout duration .*\(default ([0-9a-z]+)\)`).FindSubmatch(help)
	if match == nil {
		t.Fatalf("helm uninstall has no --timeout any more:\n%s", help)
	}
	return duration(t, string(match[1]))
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	parsed, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func uninstallJob(t *testing.T, set values) *batchv1.Job {
	t.Helper()
	return jobOf(t, objects(t, release{"archelon", "archelon-system"}, set))
}

// jobOf returns the one Job of what was rendered.
func jobOf(t *testing.T, rendered []*unstructured.Unstructured) *batchv1.Job {
	t.Helper()
	for _, object := range rendered {
		if object.GetKind() != "Job" {
			continue
		}
		job := &batchv1.Job{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job); err != nil {
			t.Fatal(err)
		}
		return job
	}
	t.Fatal("there is no Job")
	return nil
}
