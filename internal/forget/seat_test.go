package forget

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func leaseOf(uid, holder string, renewed time.Time, lasts int32) *coordinationv1.Lease {
	at := metav1.NewMicroTime(renewed)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "anywhere", Name: "archelon-" + uid}}
	if holder != "" {
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &lasts}
	}
	return lease
}

// Who serves a management cluster is seen by the clock of who renews the seat, and by a renewal that is seen to happen.
func TestSeat(t *testing.T) {
	now, past := time.Now(), time.Now().Add(-time.Hour)
	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		// renews is what happens during the watch.
		renews  *coordinationv1.Lease
		opts    Options
		refused bool
		watches bool
	}{
		"Renewed":              {lease: leaseOf(gone, "system/archelon_1", now, 300), refused: true},
		"Renewed, to be done":  {lease: leaseOf(gone, "system/archelon_1", now, 300), opts: Options{Yes: true}, refused: true},
		"Renewed, and ignored": {lease: leaseOf(gone, "system/archelon_1", now, 300), opts: Options{Yes: true, IgnoreSeat: true}},
		"Of another":           {lease: leaseOf(other, "system/archelon_1", now, 300), opts: Options{Yes: true}},
		"Never held":           {lease: leaseOf(gone, "", now, 0), opts: Options{Yes: true}},
		"Given back":           {lease: leaseOf(gone, "system/archelon_1", now, 1), opts: Options{Yes: true}},
		"Silent":               {lease: leaseOf(gone, "system/archelon_1", past, 300)},
		"Silent, to be done":   {lease: leaseOf(gone, "system/archelon_1", past, 300), opts: Options{Yes: true}, watches: true},
		"Silent by its clock, which is wrong": {
			lease: leaseOf(gone, "system/archelon_1", past, 300), opts: Options{Yes: true}, watches: true, refused: true,
			renews: leaseOf(gone, "system/archelon_1", past.Add(5*time.Second), 300),
		},
		"Given back meanwhile": {
			lease: leaseOf(gone, "system/archelon_1", past, 300), opts: Options{Yes: true}, watches: true,
			renews: leaseOf(gone, "system/archelon_1", past.Add(5*time.Second), 1),
		},
		"Written by somebody, and not renewed": {
			lease: leaseOf(gone, "system/archelon_1", past, 300), opts: Options{Yes: true}, watches: true,
			renews: leaseOf(gone, "system/archelon_1", past, 300),
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.opts.UID = gone
			watched := false
			c := interceptor.NewClient(world(t, append(clusters(), tc.lease)...), interceptor.Funcs{
				Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
					watched = true
					w := watch.NewFakeWithChanSize(1, false)
					if tc.renews != nil {
						w.Modify(tc.renews)
					}
					return w, nil
				},
			})
			before := state(t, c)
			quiet := 50 * time.Millisecond
			if tc.refused {
				quiet = time.Minute // The renewal ends the watch.
			}
			_, err := forgetAfter(t.Context(), c, tc.opts, quiet)
			alive := err != nil && strings.Contains(err.Error(), "it renews Lease anywhere/archelon-"+gone)
			if alive != tc.refused || err != nil && !alive || watched != tc.watches {
				t.Errorf("refused: %v, want %v; watched: %v, want %v; %v", alive, tc.refused, watched, tc.watches, err)
			}
			if after := state(t, c); (tc.refused || !tc.opts.Yes) != (after["c-a"] == before["c-a"]) {
				t.Errorf("c-a was %s and is %s", before["c-a"], after["c-a"])
			}
		})
	}
}
