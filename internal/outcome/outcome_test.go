package outcome

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

func TestResult(t *testing.T) {
	failed := errors.New("no")
	for name, tc := range map[string]struct {
		out  Outcome
		want ctrl.Result
		err  error
	}{
		"Done":    {out: Done()},
		"DoneFor": {out: DoneFor(time.Minute), want: ctrl.Result{RequeueAfter: time.Minute}},
		"Wait":    {out: Wait("A", "b")},
		"Poll":    {out: Poll("A", "b", time.Second), want: ctrl.Result{RequeueAfter: time.Second}},
		"Stall":   {out: Stall("A", "b")},
		"Fail":    {out: Fail("A", failed), err: failed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.out.Result()
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("got %v, %v, want %v, %v", got, err, tc.want, tc.err)
			}
		})
	}
	if !DoneFor(time.Minute).IsDone() {
		t.Error("what is done for a while is done")
	}
}

func TestMessagesAreSteady(t *testing.T) {
	for name, tc := range map[string]struct{ reason, text, want string }{
		"LocalAddress": {
			reason: "each try has a port of its own",
			text:   "failed calling webhook: read tcp 10.42.0.1:51822->10.43.9.9:443: connection reset by peer",
			want:   "Failed calling webhook: read tcp 10.43.9.9:443: connection reset by peer",
		},
		"LocalAddresses": {
			reason: "also of IPv6, and of the way to the name server",
			text:   "dial tcp: lookup a on [fd00::a]:53: read udp [fe80::1%eth0]:4312->[fd00::a]:53: i/o timeout, read udp [::1]:1->[::2]:53: refused",
			want:   "Dial tcp: lookup a on [fd00::a]:53: read udp [fd00::a]:53: i/o timeout, read udp [::2]:53: refused",
		},
		"Time": {
			reason: "each try has a time of its own; that of the certificate stays",
			text:   "x509: certificate has expired or is not yet valid: current time 2026-11-22T02:33:05+01:00 is after 2025-01-01T00:00:00Z",
			want:   "x509: certificate has expired or is not yet valid: current time is after 2025-01-01T00:00:00Z",
		},
		"Other": {reason: "what does not change is kept", text: "spec.a->b: no, dial tcp 10.43.9.9:443: refused", want: "spec.a->b: no, dial tcp 10.43.9.9:443: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			err := errors.New(tc.text)
			if got := Fail("InternalError", err); got.Message != tc.want || !errors.Is(got.Err, err) {
				t.Errorf("%s: got %q for %v, want %q and the error as it is", tc.reason, got.Message, got.Err, tc.want)
			}
			problem := &Problem{Kind: KindFail, Reason: "RancherUnreachable", Message: "No way", Err: err}
			if got := FromError(fmt.Errorf("downloading: %w", problem), ""); !strings.EqualFold(got.Message, "No way: "+tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got.Message, "No way: "+tc.want)
			}
		})
	}
}

func TestSentence(t *testing.T) {
	for text, want := range map[string]string{
		"creating the v1 Rancher cluster: refused": "Creating the v1 Rancher cluster: refused",
		"no":                       "No",
		"":                         "",
		"Rancher does not answer":  "Rancher does not answer",
		"spec.type is not known":   "spec.type is not known",
		"c-x7k2p has another name": "c-x7k2p has another name",
		"conflict: another writer": "Conflict: another writer",
	} {
		if got := Fail("InternalError", errors.New(text)).Message; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
