package seat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// MemoryName is the name of the Lease by which an instance remembers the names that it has had on the seat. It is in
// the coordination namespace, and has no label of an instance.
func MemoryName(instance string) string { return instance + "-rancher" }

// separator is between names; no name has it.
const separator = ","

// memory is what an installation remembers across its processes: the name of the last one that had the seat, and that
// of the one which takes it.
type memory struct {
	leases coordinationclient.LeaseInterface
	key    types.NamespacedName
	lease  *coordinationv1.Lease
	names  []string
}

// read brings the names up to date.
func (m *memory) read(ctx context.Context) error {
	lease, err := m.leases.Get(ctx, m.key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		m.lease, m.names = nil, nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Lease %s: %w", m.key, err)
	}
	m.keep(lease)
	return nil
}

func (m *memory) keep(lease *coordinationv1.Lease) {
	m.lease, m.names = lease, nil
	if held := ptr.Deref(lease.Spec.HolderIdentity, ""); held != "" {
		m.names = strings.Split(held, separator)
	}
}

func (m *memory) has(name string) bool { return slices.Contains(m.names, name) }

// write replaces the names, unless somebody else has since they were read.
func (m *memory) write(ctx context.Context, names ...string) error {
	if m.lease != nil && slices.Equal(m.names, names) {
		return nil
	}
	held := strings.Join(names, separator)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: m.key.Namespace, Name: m.key.Name}}
	send := func() (*coordinationv1.Lease, error) { return m.leases.Create(ctx, lease, metav1.CreateOptions{}) }
	if m.lease != nil {
		lease = m.lease.DeepCopy()
		send = func() (*coordinationv1.Lease, error) { return m.leases.Update(ctx, lease, metav1.UpdateOptions{}) }
	}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &held}
	written, err := send()
	if err != nil {
		return fmt.Errorf("writing Lease %s: %w", m.key, err)
	}
	m.keep(written)
	return nil
}
