// Package problem has assertions about errors: that they are told as a Problem, and that no secret shows in them.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/archelon-io/archelon/internal/outcome"
)

// Want fails the test unless an error is a Problem of the kind and reason that shows none of the secrets.
func Want(t *testing.T, err error, kind outcome.Kind, reason string, secrets ...string) {
	t.Helper()
	problem, ok := errors.AsType[*outcome.Problem](err)
	if !ok {
		t.Fatalf("want a Problem with reason %s, got %v", reason, err)
	}
	if problem.Kind != kind || problem.Reason != reason {
		t.Errorf("want %s %s, got %s %s: %v", kind, reason, problem.Kind, problem.Reason, err)
	}
	Hides(t, err, secrets...)
}

// Hides fails the test when a value shows one of the secrets in any way in which values are shown.
func Hides(t *testing.T, value any, secrets ...string) {
	t.Helper()
	marshalled, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("value", "value", value)
	texts := []string{string(marshalled), logged.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, value), fmt.Sprintf(verb, struct{ hidden any }{value}))
	}
	for _, text := range texts {
		for _, secret := range secrets {
			if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
				t.Errorf("shows a credential: %s", text)
			}
		}
	}
}
