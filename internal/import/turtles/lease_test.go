package turtles

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLeases(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lease := func(version string, change ...func(*coordinationv1.Lease)) []coordinationv1.Lease {
		// Its clock is an hour behind ours.
		l := coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "controller-leader-election-rancher-turtles", UID: "uid-1", ResourceVersion: version},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("turtles-0"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: start.Add(-time.Hour)},
			},
		}
		for _, c := range change {
			c(&l)
		}
		return []coordinationv1.Lease{l}
	}
	endless := func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(1<<31 - 1)) }
	released := func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") }
	another := func(l *coordinationv1.Lease) { l.Name = "rancher-turtles" }
	anew := func(l *coordinationv1.Lease) { l.UID = "uid-2" }

	type look struct {
		after  time.Duration // since the look before
		leases []coordinationv1.Lease
		want   time.Duration
	}
	for name, looks := range map[string][]look{
		"None":     {{0, nil, 0}},
		"Another":  {{0, lease("1", another), 0}},
		"Renewed":  {{0, lease("1"), 15 * time.Second}, {10 * time.Second, lease("2"), 15 * time.Second}, {14 * time.Second, lease("3"), 15 * time.Second}},
		"RunsOut":  {{0, lease("1"), 15 * time.Second}, {10 * time.Second, lease("1"), 5 * time.Second}, {5 * time.Second, lease("1"), 0}, {time.Hour, lease("1"), 0}},
		"Revives":  {{0, lease("1"), 15 * time.Second}, {time.Minute, lease("1"), 0}, {time.Second, lease("2"), 15 * time.Second}},
		"Released": {{0, lease("1"), 15 * time.Second}, {time.Second, lease("2", released), 0}},
		"Endless":  {{0, lease("1", endless), time.Minute}, {time.Minute, lease("1", endless), 0}},
		"Anew":     {{0, lease("1"), 15 * time.Second}, {time.Minute, lease("1"), 0}, {time.Second, lease("1", anew), 15 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			turtles, now := &Leases{}, start
			for i, look := range looks {
				now = now.Add(look.after)
				if got := turtles.Look(look.leases, now).Left; got != look.want {
					t.Errorf("look %d: got %v, want %v", i, got, look.want)
				}
			}
		})
	}
}
