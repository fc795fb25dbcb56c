package agenthealth

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/agent"
)

func deployment(secret string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", Name: "cattle-cluster-agent"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "agent", Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "CATTLE_CREDENTIAL_NAME", Value: secret}},
	}}
	return d
}

func TestComplete(t *testing.T) {
	t.Parallel()
	leaving := deployment("cattle-credentials-1")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for name, tc := range map[string]struct {
		o    Observation
		want bool
	}{
		"None":          {o: Observation{Credentials: true}},
		"Complete":      {o: Observation{Agent: deployment("cattle-credentials-1"), Credentials: true}, want: true},
		"NoCredentials": {o: Observation{Agent: deployment("cattle-credentials-1")}},
		"NamesNone":     {o: Observation{Agent: &appsv1.Deployment{}}, want: true},
		"Leaving":       {o: Observation{Agent: leaving, Credentials: true}},
	} {
		if got := Complete(tc.o); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestGoneIsWhatWasThere(t *testing.T) {
	t.Parallel()
	agents := &Agents{}
	woken := 0
	agents.Tell(func(types.NamespacedName) { woken++ })
	key := types.NamespacedName{Namespace: "a", Name: "b"}
	for i, step := range []struct {
		complete, gone bool
		woken          int
	}{
		{complete: false}, // It was not installed yet: that is the import's own business.
		{complete: true},
		{complete: false, gone: true, woken: 1},
		{complete: false, gone: true, woken: 1},
		{complete: true, woken: 2},
	} {
		agents.note(key, step.complete)
		if got := agents.Gone(key); got != step.gone || woken != step.woken {
			t.Errorf("step %d: gone %t, woken %d", i, got, woken)
		}
	}
	agents.note(key, false)
	agents.forget(key)
	if agents.Gone(key) {
		t.Error("the agent of a cluster that has left is gone")
	}
	var none *Agents
	if none.Gone(key) {
		t.Error("nobody knows of an agent that is gone")
	}
}

func TestFewAreKept(t *testing.T) {
	t.Parallel()
	keep := few()
	secret := func(namespace, name string) bool {
		return keep(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	if secret("cattle-system", "other") || secret("default", "cattle-credentials-1") {
		t.Error("a Secret that is none of the agent is kept")
	}
	kept := 0
	for i := range 1000 {
		if secret("cattle-system", fmt.Sprintf("cattle-credentials-%d", i)) {
			kept++
		}
	}
	if kept != 100 || !secret("cattle-system", "cattle-credentials-5") {
		t.Errorf("%d Secrets are kept", kept)
	}
	if !keep(deployment("x")) {
		t.Error("the agent is not kept")
	}
}

func TestReduce(t *testing.T) {
	t.Parallel()
	full := deployment("cattle-credentials-1")
	full.Annotations = map[string]string{"a": "b"}
	reduced, err := reduce(full)
	if err != nil {
		t.Fatal(err)
	}
	kept, ok := reduced.(*appsv1.Deployment)
	if !ok || agent.CredentialsOf(kept) != "cattle-credentials-1" || kept.Annotations != nil || len(kept.Spec.Template.Spec.Containers[0].Env) != 1 {
		t.Errorf("kept is %+v", reduced)
	}
}
