package importing

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TurtlesAtWork creates the Lease of Rancher Turtles where Turtles has it.
func (f *Fixture) TurtlesAtWork(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	const theirs = "cattle-turtles-system"
	Expect(client.IgnoreAlreadyExists(f.Client.Create(ctx, NamespaceOf(theirs)))).To(Succeed())
	return f.TurtlesLease(ctx, theirs)
}

// TurtlesLease creates the Lease of a Turtles that was alive a moment ago.
func (f *Fixture) TurtlesLease(ctx context.Context, namespace string) *coordinationv1.Lease {
	GinkgoHelper()
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "controller-leader-election-rancher-turtles"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("turtles-0"), LeaseDurationSeconds: new(int32(15)), RenewTime: &now},
	}
	Expect(f.Client.Create(ctx, lease)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(f.Client.Delete(ctx, lease))).To(Succeed()) })
	return lease
}
