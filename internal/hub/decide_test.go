package hub

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func at(seconds int) metav1.Time { return metav1.NewTime(time.Unix(int64(seconds), 0)) }

func TestDecide(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	registered := func(name string, created int, uid types.UID) registration {
		return registration{name: name, created: at(created), uid: uid}
	}
	for name, tc := range map[string]struct {
		o            observation
		reason, says string
		pin          types.UID
		run          bool
	}{
		"kubeconfig refused": {
			o: observation{registration: registration{refused: "the kubeconfig wants a program run", uid: "a"}, seen: "a"}, reason: "KubeconfigRefused", says: "wants a program run",
		},
		"nothing known yet":   {o: observation{registration: registered("one", 1, "")}},
		"never answered":      {o: observation{registration: registered("one", 1, ""), lost: errNoAnswer}, reason: "Unreachable", says: "does not answer"},
		"refuses connections": {o: observation{registration: registered("one", 1, "a"), lost: refused}, reason: "Unreachable", says: "management cluster"},
		"forbids to look":     {o: observation{registration: registered("one", 1, ""), lost: forbidden()}, reason: "Forbidden", says: "role=management-side"},
		"first look":          {o: observation{registration: registered("one", 1, ""), seen: "a"}, pin: "a"},
		"begins":              {o: observation{registration: registered("one", 1, "a"), seen: "a"}, run: true},
		"runs":                {o: observation{registration: registered("one", 1, "a"), seen: "a", synced: true}, reason: "Engaged", says: "UID a", run: true},
		"runs, and is away":   {o: observation{registration: registered("one", 1, "a"), seen: "a", synced: true, lost: refused}, reason: "Unreachable", says: "stay as they are", run: true},
		"lacks a permission":  {o: observation{registration: registered("one", 1, "a"), seen: "a", failed: &LackingError{"list secrets"}}, reason: "Forbidden", says: "may not list secrets", run: true},
		"import failed":       {o: observation{registration: registered("one", 1, "a"), seen: "a", failed: errors.New("s3cret")}, reason: "Unreachable", run: true},
		"waits for the seat":  {o: observation{registration: registered("one", 1, "a"), seen: "a", served: "another Archelon"}, reason: "SameCluster", says: ": another Archelon", run: true},
		"served again":        {o: observation{registration: registered("one", 1, "a"), seen: "a", served: "it", failed: errors.New("s3cret")}, reason: "SameCluster", says: ": it", run: true},
		"lost the seat":       {o: observation{registration: registered("one", 1, "a"), seen: "a", failed: &ServedError{"taken"}}, reason: "SameCluster", says: ": taken", run: true},
		"served, and is away": {o: observation{registration: registered("one", 1, "a"), seen: "a", served: "it", lost: refused}, reason: "Unreachable", run: true},
		"other at its begin": {
			o: observation{registration: registered("one", 1, "a"), seen: "a", failed: errOtherCluster}, reason: "OtherCluster", says: "another management cluster than before", run: true,
		},
		"other cluster":         {o: observation{registration: registered("one", 1, "a"), seen: "b"}, reason: "OtherCluster", says: "another management cluster than before"},
		"other cluster, away":   {o: observation{registration: registered("one", 1, "a"), seen: "b", lost: refused}, reason: "OtherCluster"},
		"Rancher's own":         {o: observation{registration: registered("one", 1, ""), seen: "own"}, reason: "SameCluster", says: "that Rancher runs in"},
		"Rancher's own, pinned": {o: observation{registration: registered("one", 1, "own"), seen: "own"}, reason: "SameCluster"},
		"younger": {
			o:      observation{registration: registered("two", 2, ""), seen: "a", others: []registration{registered("one", 1, "a"), registered("two", 2, "")}},
			reason: "SameCluster", says: "Secret one",
		},
		"older": {
			o:   observation{registration: registered("one", 1, "a"), seen: "a", others: []registration{registered("one", 1, "a"), registered("two", 2, "a")}},
			run: true,
		},
		"of one second, first by name": {
			o:   observation{registration: registered("one", 1, "a"), seen: "a", others: []registration{registered("two", 1, "a")}},
			run: true,
		},
		"of one second, second by name": {
			o:      observation{registration: registered("two", 1, "a"), seen: "a", others: []registration{registered("one", 1, "a")}},
			reason: "SameCluster",
		},
		"beside another": {
			o:   observation{registration: registered("two", 2, "b"), seen: "b", others: []registration{registered("one", 1, "a")}},
			run: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.own = "own"
			d := tc.o.decide()
			if d.reason != tc.reason || d.pin != tc.pin || d.run != tc.run || !strings.Contains(d.message, tc.says) {
				t.Errorf("got %+v, want reason %q, pin %q, run %t, %q", d, tc.reason, tc.pin, tc.run, tc.says)
			}
			if (d.reason == "") != (d.message == "") || strings.Contains(d.message, "s3cret") || strings.Contains(d.message, "workload") {
				t.Errorf("it says %q", d.message)
			}
		})
	}
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", errors.New("s3cret"))
}
