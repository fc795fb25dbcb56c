package docs

import "testing"

func TestSee(t *testing.T) {
	former := base
	defer func() { base = former }()
	base = "https://docs.example.com/v1.2.3/"
	want := "Waiting for the control plane. See https://docs.example.com/v1.2.3/docs/operations/conditions.md#waitingforcontrolplane"
	if got := See("Waiting for the control plane", Reason("WaitingForControlPlane")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
