package capi

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// index is a field that is indexed in all clusters.
type index struct {
	object  client.Object
	field   string
	extract client.IndexerFunc
}

// key tells indexes apart: a kind, in one form, has one index of a field.
func (i index) key() string {
	kind := i.object.GetObjectKind().GroupVersionKind()
	return fmt.Sprintf("%T %s %s", i.object, kind, i.field)
}

// IndexField implements multicluster.Provider. The index is in all clusters, those that come later included. To ask for
// one again makes no difference. It does not wait for clusters: each gets the index before its objects of the kind are
// read. Each index has its kind received from every cluster.
func (p *Provider) IndexField(
	ctx context.Context, object client.Object, field string, extract client.IndexerFunc,
) error {
	added := index{object: object, field: field, extract: extract}
	p.mu.Lock()
	for _, known := range p.indexes {
		if known.key() == added.key() {
			p.mu.Unlock()
			return nil
		}
	}
	p.indexes = append(p.indexes, added)
	members := make([]*member, 0, len(p.members))
	for _, m := range p.members {
		members = append(members, m)
	}
	p.mu.Unlock()

	for _, m := range members {
		m.index(ctx)
	}
	return nil
}

// index adds the indexes that an engaged cluster lacks. What fails is tried again with the next look at the cluster.
func (m *member) index(ctx context.Context) {
	m.indexing.Lock()
	defer m.indexing.Unlock()
	_, engaged := m.cluster()
	if engaged == nil {
		return
	}
	m.provider.mu.RLock()
	indexes := m.provider.indexes
	m.provider.mu.RUnlock()
	for _, i := range indexes {
		if engaged.applied[i.key()] {
			continue
		}
		err := engaged.cluster.cache.IndexField(ctx, i.object, i.field, i.extract)
		switch {
		case err == nil:
			engaged.applied[i.key()] = true
		case ctx.Err() == nil:
			m.log.Info("A field is not indexed yet in the cluster", "field", i.field, "type", fmt.Sprintf("%T", i.object))
		}
	}
}
