package fleet_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// replica is one of two managers with the provider, and how many connections to workload clusters it has.
type replica struct {
	*world
	open atomic.Int64
	stop func()
}

// dialed is a connection that counts.
type dialed struct {
	net.Conn
	gone func()
}

// Close implements net.Conn.
func (d *dialed) Close() error {
	d.gone()
	return d.Conn.Close()
}

// access leads to the workload cluster, and counts.
func (r *replica) access(context.Context, *clusterv1.Cluster) (*rest.Config, error) {
	access := rest.CopyConfig(workload.Config)
	access.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		r.open.Add(1)
		return &dialed{Conn: conn, gone: sync.OnceFunc(func() { r.open.Add(-1) })}, nil
	}
	return access, nil
}

var _ = Describe("Two replicas", func() {
	It("are engaged one at a time: the next one when the leader ends, which has no connection left", func(ctx context.Context) {
		w := newWorld(ctx)
		w.pod(ctx, workloadAdmin, "first")
		w.cluster(ctx, "one", clusterv1.ClusterPhaseProvisioned)
		replicas := []*replica{{}, {}}
		for _, r := range replicas {
			r.world = &world{namespace: w.namespace, counts: map[multicluster.ClusterName]int{}}
			options := r.options()
			options.GetSecret = r.access
			r.build(options, nil, func(o *ctrl.Options) {
				o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "fleet", w.namespace
				o.LeaderElectionReleaseOnCancel = true
			})
		}
		replicas[0].count(replicas[0].manager)
		replicas[1].namespace += "-next" // the name of a controller is unique in a process
		replicas[1].count(replicas[1].manager)
		replicas[1].namespace = w.namespace

		replicas[0].stop = replicas[0].start(replicas[0].manager)
		Eventually(replicas[0].counted(w.name("one"))).Should(Equal(1))
		replicas[1].stop = replicas[1].start(replicas[1].manager)
		Consistently(replicas[1].open.Load).Should(BeZero())
		Expect(replicas[1].provider.Statuses()).To(BeEmpty())

		replicas[0].stop()
		Expect(replicas[0].open.Load()).To(BeZero())
		Eventually(replicas[1].counted(w.name("one"))).Should(Equal(1))
	})
})
