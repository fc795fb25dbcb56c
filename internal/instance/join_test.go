package instance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/archelon-io/archelon/internal/shard"
)

// refusing refuses the first Leases that are created.
type refusing struct {
	*line
	refusals, tries int
}

// Leases implements coordinationclient.LeasesGetter.
func (r *refusing) Leases(string) coordinationclient.LeaseInterface { return r }

// Create implements coordinationclient.LeaseInterface.
func (r *refusing) Create(
	ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	r.tries++
	if r.tries <= r.refusals {
		return nil, errors.New("refused")
	}
	return r.line.Create(ctx, lease, options)
}

// joining returns peers that have not joined.
func joining(t *testing.T, leases coordinationclient.LeasesGetter) *Peers {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	peers, err := NewPeers(Options{
		Self: ID{Namespace: system, Name: "a"}, Claim: Claim{Scope: shard.Scope{}}, Leases: leases,
		Duration: 15 * time.Second, Fence: newFence(t).Fence, Metrics: metrics, Tell: func(string, string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return peers
}

// An API server that refuses for a while when an instance starts does not end it.
func TestJoinIsTriedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		refusals int
		want     error
	}{
		"Refused":    {refusals: 2},
		"NobodyAsks": {refusals: 100, want: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leases := &refusing{line: &line{server: newServer()}, refusals: tc.refusals}
				peers := joining(t, leases)
				asking, answered := context.WithTimeout(t.Context(), 10*time.Second)
				defer answered()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if _, err := peers.Join(ctx, asking); !errors.Is(err, tc.want) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
				if tc.want == nil && leases.tries != tc.refusals+1 {
					t.Errorf("it was tried %d times", leases.tries)
				}
			})
		})
	}
}

// What is yet to be left stands on the Lease until it is left, for a process that comes after one that died.
func TestLeavingStandsOnTheLease(t *testing.T) {
	t.Parallel()
	line, leaving := &line{server: newServer()}, []string{"a", "b"}
	lock, err := NewLock(LockOptions{
		Self: ID{Namespace: system, Name: "a"}, Leases: line, Identity: "me", Fence: newFence(t).Fence,
		Leaving: func() []string { return leaving },
	})
	if err != nil {
		t.Fatal(err)
	}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "me", LeaseDurationSeconds: 15}
	if err := lock.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{{"a", "b"}, {"b"}, nil} {
		leaving = want
		if err := lock.Update(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		found, err := Read(line.server.leases[ID{Name: "a"}.LeaseName()])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(found.Leaving, want) {
			t.Errorf("got %v, want %v", found.Leaving, want)
		}
	}
}

// What was left to another instance may be this one's when that claims something else.
func TestOthersAreToldOfAnotherClaim(t *testing.T) {
	t.Parallel()
	peers := joining(t, &line{server: newServer()})
	var told []string
	defer peers.Gone(func(name string) { told = append(told, name) })()
	renewed := time.Now()
	for _, tc := range []struct {
		selector string
		want     []string
	}{{"team=red", nil}, {"team=red", nil}, {"team=blue", []string{"system/team"}}, {"team=blue", nil}} {
		renewed = renewed.Add(time.Second)
		selector, err := labels.Parse(tc.selector)
		if err != nil {
			t.Fatal(err)
		}
		peers.changed(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: system, Name: "team" + leaseSuffix, Labels: map[string]string{"archelon.io/instance": "team"},
				Annotations: Claim{Scope: shard.Scope{}, Selector: selector}.annotations(shard.Scope{}),
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: new("x"), RenewTime: &metav1.MicroTime{Time: renewed}},
		})
		if peers.tellGone(); !slices.Equal(told, tc.want) {
			t.Errorf("with %s it is told of %q, want %q", tc.selector, told, tc.want)
		}
		told = nil
	}
}
